// Moves large things and says how much memory that took: resident at the start, and at most.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'pannier'
import { restoreDir, snapshotDir } from 'pannier/wwebjs'

const [address, work] = process.argv.slice(2)
const pannier = await connect({ address })
// Everything is loaded, and has worked once.
await pannier.blobs.save('warm', join(work, 'small'))
await pannier.blobs.fetch('warm', join(work, 'small.out'))
const megabytes = field => Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync('/proc/self/status', 'utf8'))[1]) / 1024
const before = megabytes('VmRSS')
const said = { before }
for (const [what, move] of Object.entries({
  save: () => pannier.blobs.save('large', join(work, 'large')),
  fetch: () => pannier.blobs.fetch('large', join(work, 'large.out')),
  snapshot: () => snapshotDir(pannier, 'profile', join(work, 'profile')),
  restore: () => restoreDir(pannier, 'profile', join(work, 'restored')),
})) {
  const began = performance.now()
  await move()
  said[what] = { seconds: (performance.now() - began) / 1000, most: megabytes('VmHWM') }
}
console.log(JSON.stringify(said))
await pannier.close()
