// Sessions open in this process. Opening one that is open lends the same handle again; the last one that is given back closes it.
// A handle goes over a connection of one of those who have it: closing a connection ends the loans made through it, no others.

import { closed } from '../errors.js'
import type { Pannier } from '../pannier.js'
import { Handle } from './handle.js'
import type { Settings } from './settings.js'

interface Entry {
  readonly key: string
  readonly handle: Handle
  readonly opening: Promise<void>
  readonly loans: Set<Loan>
}

const open = new Map<string, Entry>()
/** Handles on their way out: the next one of the name waits, or its lease could be released by the old one. */
const closing = new Map<string, Promise<void>>()

/** A handle that one auth state has, until it is given back by the state, or by its connection when that is closed. */
export class Loan {
  /** Called once, when it is given back. */
  onBack: () => void = () => {}
  readonly #disown: () => void
  #back: Promise<void> | undefined

  constructor(
    private readonly entry: Entry,
    readonly pannier: Pannier,
  ) {
    entry.loans.add(this)
    this.#disown = pannier.adopt({ close: timeoutMs => this.giveBack(timeoutMs) })
  }

  get handle(): Handle {
    return this.entry.handle
  }

  /** Idempotent. The last one ends within `timeoutMs`, the others at once. */
  giveBack(timeoutMs: number): Promise<void> {
    this.#back ??= this.#giveBack(timeoutMs).finally(this.#disown)
    return this.#back
  }

  #giveBack(timeoutMs: number): Promise<void> {
    const { entry, handle } = this
    entry.loans.delete(this)
    this.onBack()
    if (handle.failure) return Promise.resolve()
    const connections = [...entry.loans].map(({ pannier }) => pannier.connection)
    if (connections[0] === undefined) return leave(entry, timeoutMs)
    if (!connections.includes(handle.connection)) handle.move(connections[0])
    return Promise.resolve()
  }
}

/** Opens a session, or shares the one that is open. @throws PannierError */
export async function borrow(pannier: Pannier, session: string, settings: Settings): Promise<Loan> {
  const key = JSON.stringify([pannier.address, pannier.namespace, session, settings.owner])
  for (let leaving = closing.get(key); leaving; leaving = closing.get(key)) await leaving
  if (pannier.closing) throw closed('the connection')
  const present = open.get(key)
  const entry = present && !present.handle.failure ? present : begin(key, pannier, session, settings)
  const loan = new Loan(entry, pannier)
  try {
    await entry.opening
  } catch (error) {
    // Nobody joins what has failed; whatever it took goes back.
    if (open.get(key) === entry) open.delete(key)
    await loan.giveBack(2000)
    throw error
  }
  return loan
}

function begin(key: string, pannier: Pannier, session: string, settings: Settings): Entry {
  const handle = new Handle(pannier, session, settings)
  const entry = { key, handle, opening: handle.open(), loans: new Set<Loan>() }
  open.set(key, entry)
  handle.onOver = done => goes(entry, done)
  return entry
}

function leave(entry: Entry, timeoutMs: number): Promise<void> {
  const done = entry.handle.close(timeoutMs)
  goes(entry, done)
  return done
}

function goes(entry: Entry, done: Promise<void>): void {
  const { key } = entry
  if (open.get(key) === entry) open.delete(key)
  const gone = done.finally(() => {
    if (closing.get(key) === gone) closing.delete(key)
  })
  closing.set(key, gone)
}
