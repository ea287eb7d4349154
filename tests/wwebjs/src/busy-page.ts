// A page that writes IndexedDB and localStorage without pause, and can say whether what it finds is one state of what it wrote.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const RING = 400

/** Every transaction writes one slot of a ring and the count of transactions; now and then a Blob, which Chrome keeps in a file. */
const PAGE = `<!doctype html><meta charset="utf-8"><title>busy</title><script>
const RING = ${RING}
const opened = new Promise((resolve, reject) => {
  const opening = indexedDB.open('busy', 1)
  opening.onupgradeneeded = () => { opening.result.createObjectStore('slots'); opening.result.createObjectStore('count') }
  opening.onsuccess = () => resolve(opening.result)
  opening.onerror = () => reject(opening.error)
})
const settled = transaction => new Promise((resolve, reject) => {
  transaction.oncomplete = () => resolve()
  transaction.onabort = transaction.onerror = () => reject(transaction.error)
})
window.count = 0
window.failure = ''
window.work = async () => {
  const database = await opened
  const noise = new Uint8Array(6_000)
  for (;;) {
    const n = window.count + 1
    crypto.getRandomValues(noise)
    const transaction = database.transaction(['slots', 'count'], 'readwrite')
    transaction.objectStore('slots').put({ n, noise, blob: n % 7 === 0 ? new Blob([noise]) : undefined }, n % RING)
    transaction.objectStore('count').put(n, 'count')
    await settled(transaction)
    window.count = n
    localStorage.setItem('slot' + n % 20, n + ':' + 'x'.repeat(500))
  }
}
window.check = async () => {
  const database = await opened
  const transaction = database.transaction(['slots', 'count'], 'readonly')
  const read = request => new Promise((resolve, reject) => { request.onsuccess = () => resolve(request.result); request.onerror = () => reject(request.error) })
  const count = await read(transaction.objectStore('count').get('count')) ?? 0
  const keys = await read(transaction.objectStore('slots').getAllKeys())
  const slots = await read(transaction.objectStore('slots').getAll())
  const wrong = []
  for (let i = 0; i < keys.length; i++) {
    const slot = slots[i]
    // The newest of this slot, of all that had been written by then.
    const newest = count - ((count - keys[i]) % RING + RING) % RING
    if (slot.n !== newest || slot.noise.length !== 6_000) wrong.push(keys[i] + ' holds ' + slot.n + ' of ' + count)
    if (slot.blob && (await slot.blob.arrayBuffer()).byteLength !== 6_000) wrong.push(keys[i] + ': blob')
  }
  if (keys.length !== Math.min(count, RING)) wrong.push(keys.length + ' slots of ' + count)
  for (let i = 0; i < localStorage.length; i++) {
    const value = localStorage.getItem(localStorage.key(i))
    if (!/^\\d+:x{500}$/.test(value)) wrong.push('localStorage ' + localStorage.key(i))
  }
  return { count, stored: localStorage.length, wrong }
}
</script>`

/** What a page found. */
export interface Found {
  count: number
  /** Entries of localStorage. */
  stored: number
  wrong: string[]
}

/** Serves it on loopback, always at one address: Chrome keeps data by origin. */
export async function serveBusyPage(): Promise<{ url: string; close: () => void }> {
  const server = createServer((_, response) => response.setHeader('content-type', 'text/html').end(PAGE))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const close = (): void => {
    server.closeAllConnections()
    server.close()
  }
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, close }
}
