// Sessions open in this process. Opening one that is open gives the same handle, counted; the last close releases it.

import { closed, type PannierError } from '../errors.js'
import type { Pannier } from '../pannier.js'
import { Handle } from './handle.js'
import type { Settings } from './settings.js'

interface Entry {
  handle: Handle
  opening: Promise<void>
  users: number
}

const open = new Map<string, Entry>()
/** Handles on their way out: the next one of the name waits, or its lease could be released by the old one. */
const closing = new Map<string, Promise<void>>()

/** A handle, and how to give it back. */
export interface Borrowed {
  handle: Handle
  /** Idempotent. */
  giveBack: (timeoutMs: number) => Promise<void>
}

/** Opens a session, or shares the one that is open. @throws PannierError */
export async function borrow(pannier: Pannier, session: string, settings: Settings): Promise<Borrowed> {
  const key = JSON.stringify([pannier.address, pannier.namespace, session, settings.owner])
  for (let leaving = closing.get(key); leaving; leaving = closing.get(key)) await leaving
  if (pannier.closing) throw closed('the connection')
  let entry = open.get(key)
  if (entry === undefined || entry.handle.failure) {
    const handle = new Handle(pannier, session, settings)
    entry = { handle, opening: handle.open(), users: 0 }
    open.set(key, entry)
    watch(pannier, key, entry)
  }
  entry.users++
  const mine = entry
  try {
    await mine.opening
  } catch (error) {
    // Whatever it took goes back.
    if (open.get(key) === mine) await leave(key, mine, 2000)
    throw error as PannierError
  }
  let back: Promise<void> | undefined
  const giveBack = (timeoutMs: number): Promise<void> => {
    back ??= --mine.users > 0 || mine.handle.failure ? Promise.resolve() : leave(key, mine, timeoutMs)
    return back
  }
  return { handle: mine.handle, giveBack }
}

/** Closing the connection closes the handle; a handle that is over is forgotten. */
function watch(pannier: Pannier, key: string, entry: Entry): void {
  const release = pannier.adopt({ close: timeoutMs => leave(key, entry, timeoutMs) })
  entry.handle.onOver = done => {
    release()
    goes(key, entry, done)
  }
}

function leave(key: string, entry: Entry, timeoutMs: number): Promise<void> {
  const done = entry.handle.close(timeoutMs)
  goes(key, entry, done)
  return done
}

function goes(key: string, entry: Entry, done: Promise<void>): void {
  if (open.get(key) === entry) open.delete(key)
  const gone = done.finally(() => {
    if (closing.get(key) === gone) closing.delete(key)
  })
  closing.set(key, gone)
}
