// A bot as people write it: makeWASocket over some auth state, reconnecting when the connection closes, re-opening its
// state each time. It answers texts with `reply` and keeps what a test asks about.
import { type AuthenticationState, DisconnectReason, type WAMessage, type WASocket, WAMessageStubType } from 'baileys'
import { baileys, type Version } from './baileys-versions.js'
import { Inbox } from './inbox.js'
import { logger } from './logger.js'
import './signal-console.js'

export interface AuthStore {
  state: AuthenticationState
  saveCreds(): Promise<void>
  close?(): Promise<void>
  /** A store that can tell that it is of no more use, as Pannier does. */
  on?(event: 'fatal', listener: (error: Error) => void): unknown
}

/** Opens (again) the state of the bot with that name. */
export type OpenAuthState = (name: string) => Promise<AuthStore>

export interface BotOptions {
  name?: string
  version?: Version
  url: string
  openAuthState: OpenAuthState
  /** The person who holds the phone: called with each QR code. */
  onQr(qr: string): void
  /** The answer to a text; undefined stays silent. */
  reply?(text: string): string | undefined
}

export class Bot {
  readonly received = new Inbox<{ text: string; message: WAMessage }>('message at the bot')
  /** Why messages did not decrypt: what Baileys writes into their stub, such as "Bad MAC". */
  readonly undecryptable: string[] = []
  /** Times that this bot was linked to a phone. */
  pairings = 0
  /** Status codes of the connections that closed. */
  readonly closes: number[] = []
  /** What the store gave as reason for being of no more use; then the bot has ended. */
  fatal: Error | undefined
  #socket: WASocket | undefined
  readonly #stores: AuthStore[] = []
  #saving: Promise<unknown> = Promise.resolve()
  readonly #replies = new Set<Promise<unknown>>()
  #stopped = false
  readonly #ready = new Inbox<void>('open connection')

  private constructor(private readonly options: BotOptions) {}

  /** Resolves once the bot is logged in. */
  static async start(options: BotOptions): Promise<Bot> {
    const bot = await Bot.connect(options)
    await bot.opened()
    return bot
  }

  /** Resolves as soon as the bot has begun to connect. */
  static async connect(options: BotOptions): Promise<Bot> {
    const bot = new Bot(options)
    await bot.#connect()
    return bot
  }

  /** Waits for the next time that the connection is open. */
  async opened(wait?: { timeoutMs?: number }): Promise<void> {
    await this.#ready.next(wait).catch((error: Error) => {
      throw new Error(`${error.message}; paired ${this.pairings} times, closed with [${this.closes.join(', ')}]`)
    })
  }

  get socket(): WASocket {
    if (!this.#socket) throw new Error('the bot has no connection')
    return this.#socket
  }

  get credentials(): AuthenticationState['creds'] {
    return this.socket.authState.creds
  }

  /** Ends in order: Baileys stores that it has sent a message only after it has sent it. */
  async stop(): Promise<void> {
    // With a store of no more use it tries for half a minute.
    if (!this.fatal) await Promise.all(this.#replies)
    this.#stopped = true
    await this.#socket?.end(undefined)
    await this.#saving
    for (const store of this.#stores) await store.close?.()
  }

  async #connect(): Promise<void> {
    const { name = 'bot', version = '7.0.0-rc14', url, openAuthState } = this.options
    if (this.#stopped) return
    const store = await openAuthState(name)
    if (this.#stopped) return store.close?.()
    this.#stores.push(store)
    const { state, saveCreds } = store
    const socket = baileys(version).makeWASocket({ auth: state, logger, waWebSocketUrl: url, retryRequestDelayMs: 1 })
    this.#socket = socket
    store.on?.('fatal', error => {
      this.fatal ??= error
      this.#stopped = true
      void socket.end(error)
    })
    socket.ev.on('creds.update', () => {
      this.#saving = Promise.all([this.#saving, saveCreds()])
    })
    socket.ev.on('connection.update', update => {
      if (update.qr) this.options.onQr(update.qr)
      if (update.isNewLogin) this.pairings++
      if (update.connection === 'open') this.#ready.push()
      if (update.connection === 'close') this.#closed(update.lastDisconnect?.error)
    })
    socket.ev.on('messages.upsert', ({ messages }) => {
      for (const message of messages) this.#upserted(socket, message)
    })
  }

  #closed(error: Error | undefined): void {
    if (this.#stopped) return
    const code = (error as { output?: { statusCode?: number } } | undefined)?.output?.statusCode ?? 0
    this.closes.push(code)
    if (code === DisconnectReason.loggedOut || code === DisconnectReason.connectionReplaced) return
    setImmediate(() => void this.#connect())
  }

  #upserted(socket: WASocket, message: WAMessage): void {
    if (message.messageStubType === WAMessageStubType.CIPHERTEXT) {
      this.undecryptable.push(String(message.messageStubParameters?.[0]))
      return
    }
    const text = message.message?.conversation ?? message.message?.extendedTextMessage?.text
    if (!text || message.key.fromMe) return
    this.received.push({ text, message })
    const answer = this.options.reply?.(text)
    if (answer !== undefined && message.key.remoteJid) {
      const sent = socket.sendMessage(message.key.remoteJid, { text: answer })
        .catch(error => this.undecryptable.push(`not sent: ${error}`))
        .finally(() => this.#replies.delete(sent))
      this.#replies.add(sent)
    }
  }
}
