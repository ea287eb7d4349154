// Bots and their contacts exchanging Signal messages without sockets: one to one and in groups, both ways, in random
// order from a seed, with messages crossing on the way. Every message must decrypt, whatever `between` does meanwhile.
import type { Version } from './baileys-versions.js'
import type { OpenAuthState } from './bot.js'
import { memoryAuthState } from './memory-store.js'
import { Random } from './random.js'
import { type Group, Party } from './signal-pairs/party.js'
import { Lanes } from './signal-pairs/lanes.js'

export interface PairsOptions {
  version: Version
  /** Opens the state of a bot; contacts keep theirs in memory. */
  openAuthState: OpenAuthState
  seed?: number
  bots?: number
  contacts?: number
  groups?: number
  /** Messages sent, plus deliveries and restarts. */
  steps?: number
  /** A bot is closed and opened again about every so many steps; 0 never. */
  reopenEvery?: number
  /** The bots' store keeps what 6.7.24 adds to a set under way, as Pannier does: then a bot may do several things at once. */
  keepsAdded?: boolean
  /** Called before each step, while earlier ones may still be under way: the place to kill something. */
  between?(step: number): Promise<void> | void
}

export interface PairsReport {
  seed: number
  oneToOne: number
  toGroups: number
  decrypted: number
  reopened: number
  elapsedMs: number
}

/** Operations under way at once; more only makes the two-core machines thrash. */
const OVERLAP = 8
const GROUP_SIZE = 4

export async function exchangeMessages(options: PairsOptions): Promise<PairsReport> {
  const seed = options.seed ?? Random.seed()
  const exchange = new Exchange(options, new Random(seed))
  const started = performance.now()
  try {
    await exchange.open()
    await exchange.run()
  } catch (error) {
    throw new Error(`seed ${seed}, step ${exchange.step}, Baileys ${options.version}: ${(error as Error).message}`, { cause: error })
  }
  return { seed, ...exchange.counts, elapsedMs: Math.round(performance.now() - started) }
}

class Exchange {
  readonly counts = { oneToOne: 0, toGroups: 0, decrypted: 0, reopened: 0 }
  step = 0
  readonly #lanes = new Lanes()
  readonly #bots: Party[]
  readonly #contacts: Party[]
  readonly #groups: Group[]
  /** Who wrote first in each pair, and whether the other one has read that. */
  readonly #firstContact = new Map<string, { by: Party; read: boolean }>()

  constructor(private readonly options: PairsOptions, private readonly random: Random) {
    const { version, openAuthState, bots = 2, contacts = 100, groups = 8 } = options
    this.#bots = Array.from({ length: bots }, (_, n) =>
      new Party(`bot-${n + 1}`, `1555999000${n}`, version, () => openAuthState(`bot-${n + 1}`)))
    this.#contacts = Array.from({ length: contacts }, (_, n) => {
      const state = memoryAuthState()
      return new Party(`contact-${n + 1}`, String(15550000000 + n), version, async () => ({ state, saveCreds: async () => undefined }))
    })
    this.#groups = Array.from({ length: groups }, (_, n) => ({
      jid: `12036300000000${1000 + n}@g.us`,
      members: [...this.#bots, ...random.sample(this.#contacts, GROUP_SIZE)],
    }))
  }

  async open(): Promise<void> {
    for (const party of [...this.#bots, ...this.#contacts]) await party.open()
    for (const bot of this.#bots) await bot.uploadPreKeys()
    for (const contact of this.#contacts) await contact.uploadPreKeys(10)
  }

  async run(): Promise<void> {
    const { steps = 1_000, reopenEvery = 200, between } = this.options
    for (this.step = 0; this.step < steps; this.step++) {
      await between?.(this.step)
      await this.#lanes.drain(OVERLAP)
      const chance = this.random.next()
      if (reopenEvery > 0 && chance < 1 / reopenEvery) await this.#reopen(this.random.pick(this.#bots))
      else if (chance < 0.42) await this.#sendOneToOne()
      else if (chance < 0.5) await this.#sendToGroup()
      else this.#deliver(this.#waiting())
    }
    for (;;) {
      await this.#lanes.drain()
      const waiting = [...this.#bots, ...this.#contacts].filter(party => party.inbox.length)
      if (!waiting.length) break
      for (const party of waiting) this.#deliver(party)
    }
    for (const bot of this.#bots) {
      await bot.reopen()
      await bot.verify()
      await bot.close()
    }
  }

  async #sendOneToOne(): Promise<void> {
    const bot = this.random.pick(this.#bots)
    const other = this.random.pick([...this.#contacts, ...this.#bots.filter(one => one !== bot)])
    const [from, to] = this.random.next() < 0.5 ? [bot, other] : [other, bot]
    await this.#meet(from, [to])
    const text = this.#text(++this.counts.oneToOne)
    this.#lanes.start(this.#lanesOf(from, [to]), () => from.send(to, text))
  }

  async #sendToGroup(): Promise<void> {
    const group = this.random.pick(this.#groups)
    const from = this.random.next() < 0.5 ? this.random.pick(this.#bots) : this.random.pick(group.members)
    await this.#meet(from, group.members)
    const text = this.#text(++this.counts.toGroups)
    this.#lanes.start([...this.#lanesOf(from, group.members), `${from.name} in ${group.jid}`], () => from.sendToGroup(group, text))
  }

  /**
   * Two ends that open a session with each other at the same moment end up with two, and libsignal then spoils the one
   * when it tries it for a message of the other. So who was written to first reads that before writing back.
   */
  async #meet(from: Party, others: Party[]): Promise<void> {
    const unreadFrom = new Set<Party>()
    for (const other of others) {
      const key = [from.name, other.name].sort().join(' ')
      const first = this.#firstContact.get(key)
      if (!first) this.#firstContact.set(key, { by: from, read: false })
      else if (first.by === other && !first.read) unreadFrom.add(other)
    }
    if (!unreadFrom.size) return
    await this.#lanes.drain()
    while (from.inbox.some(envelope => unreadFrom.has(envelope.from))) this.#deliver(from)
  }

  /** Somebody with unread messages: a bot half of the time, as bots are what is tested. */
  #waiting(): Party | undefined {
    const unread = (parties: Party[]) => parties.filter(({ inbox }) => inbox.length)
    const [bots, contacts] = [unread(this.#bots), unread(this.#contacts)]
    const from = bots.length && (!contacts.length || this.random.next() < 0.5) ? bots : contacts
    return from.length ? this.random.pick(from) : undefined
  }

  #deliver(reader: Party | undefined): void {
    const envelope = reader?.inbox.shift()
    if (!reader || !envelope) return
    const { from, group } = envelope
    const first = this.#firstContact.get([reader.name, from.name].sort().join(' '))
    if (first?.by === from) first.read = true
    const lanes = [...this.#lanesOf(reader, [from]), `${reader.name} reads`, ...(group ? [`${reader.name} in ${group.jid}`] : [])]
    this.#lanes.start(lanes, async () => {
      await reader.receive(envelope)
      this.counts.decrypted++
    })
  }

  async #reopen(bot: Party): Promise<void> {
    await this.#lanes.drain()
    await bot.reopen()
    this.counts.reopened++
  }

  /**
   * What must not overlap with work of `party` that touches its sessions with `others`, because Baileys itself does not
   * keep it apart. libsignal queues by address in the whole process, and there rc14's transactions see each other's
   * context; 6.7.24 has one transaction for the whole store and forgets what is set while it commits, unless the store sees to that.
   */
  #lanesOf(party: Party, others: Party[]): string[] {
    const addresses = others.filter(other => other !== party).map(other => `address of ${other.name}`)
    const oneAtATime = this.options.version === '6.7.24' && !(this.options.keepsAdded && this.#bots.includes(party))
    return oneAtATime ? [party.name, ...addresses] : addresses
  }

  #text(n: number): string {
    return `message ${n} ${'·'.repeat(this.random.below(60))}`
  }
}
