// A WhatsApp server of our own on loopback: enough of it that an unmodified Baileys pairs, logs in, sends and receives,
// with real Noise and real Signal. What it is asked for and does not know it answers with an empty result.
import { type BinaryNode, Curve, getBinaryNodeChild, proto, S_WHATSAPP_NET } from 'baileys'
import { once } from 'node:events'
import { randomBytes } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { deflateSync } from 'node:zlib'
import { WebSocketServer } from 'ws'
import { makeAuthority, trustAuthority } from './fake-whatsapp/certificates.js'
import type { Companion } from './fake-whatsapp/companion.js'
import { Directory, type Group } from './fake-whatsapp/directory.js'
import { Link } from './fake-whatsapp/link.js'
import { Pairing, readQrCode } from './fake-whatsapp/pairing.js'
import { Phone, type ReceivedMessage } from './fake-whatsapp/phone.js'
import { answer } from './fake-whatsapp/queries.js'
import { messageStanza, routeMessage, routeRetry } from './fake-whatsapp/routing.js'

export type { Group, ReceivedMessage }

/** What has happened on the server so far. */
export interface Counters {
  pairings: number
  logins: number
  /** A login that pushed out an older connection of the same device. */
  conflicts: number
  /** A login of a device that the server does not know: the bot would have to pair again. */
  refused: number
  preKeysUploaded: number
  keyBundlesServed: number
  messagesToBots: number
  messagesFromBots: number
  /** A bot could not decrypt a message and asked for it again. */
  retryReceipts: number
}

/** The person at the other end. */
export interface Peer {
  readonly jid: string
  /** Sends a text to the bot, or to a group with the bot in it. Resolves with the message id once it is on its way. */
  send(text: string, to?: { group?: Group; bot?: string }): Promise<string>
  nextMessage(wait?: { timeoutMs?: number }): Promise<ReceivedMessage>
  /** Messages of the bot that did not decrypt here. */
  readonly undecryptable: readonly { id: string; reason: string }[]
}

export interface FakeWhatsApp extends AsyncDisposable {
  /** For `waWebSocketUrl`. */
  readonly url: string
  /** For `trustAuthority`, when the bot runs in another process. */
  readonly authority: Buffer
  readonly counters: Readonly<Counters>
  /** What bots sent that the server did not understand; empty in a good run. */
  readonly errors: readonly Error[]
  /** What the bot's owner does with the phone when the bot shows a code. */
  scanQr(qr: string, phoneNumber?: string): void
  addPeer(jid: string): Peer
  addGroup(peers: Peer[], options?: { subject?: string; addressingMode?: 'lid' | 'pn'; phoneNumber?: string }): Group
  /** Cuts every connection without a word. */
  dropConnections(): void
  /** What the bot's owner does with the phone to be rid of it: its next login is refused with 401. */
  removeBots(): void
  close(): Promise<void>
}

const OWNER = '15559990000'

export interface FakeWhatsAppOptions {
  /**
   * How long a message or receipt travels to a bot. Baileys hands a message to the network before it has stored that it
   * did, so an answer that comes within that moment does not decrypt. Real ones take longer; 0 provokes it.
   */
  latencyMs?: number
}

export async function startFakeWhatsApp({ latencyMs = 50 }: FakeWhatsAppOptions = {}): Promise<FakeWhatsApp> {
  const server = new Server(latencyMs)
  await server.listen()
  trustAuthority(server.authority)
  return server
}

class Server implements FakeWhatsApp {
  readonly counters: Counters = {
    pairings: 0, logins: 0, conflicts: 0, refused: 0, preKeysUploaded: 0, keyBundlesServed: 0,
    messagesToBots: 0, messagesFromBots: 0, retryReceipts: 0,
  }
  readonly errors: Error[] = []
  readonly #directory = new Directory()
  readonly #authority = makeAuthority()
  readonly #identity = Curve.generateKeyPair()
  readonly #certificate = this.#authority.certify(this.#identity.public)
  readonly #sockets = new WebSocketServer({ host: '127.0.0.1', port: 0 })
  readonly #links = new Set<Link>()
  readonly #pairings = new Map<Link, Pairing>()
  readonly #linked = new Set<Companion>()
  readonly #bots = new Map<Link, Companion>()

  constructor(private readonly latencyMs: number) {}

  get url(): string {
    return `ws://127.0.0.1:${(this.#sockets.address() as AddressInfo).port}/ws/chat`
  }

  get authority(): Buffer {
    return this.#authority.publicKey
  }

  async listen(): Promise<void> {
    this.#sockets.on('connection', socket => {
      this.#links.add(new Link(socket, this.#identity, this.#certificate, {
        opened: (link, payload, clientKey) => this.#opened(link, payload, clientKey),
        node: (link, node) => this.#received(link, node),
        closed: link => this.#closed(link),
        failed: error => this.errors.push(error),
      }))
    })
    await once(this.#sockets, 'listening')
  }

  scanQr(qr: string, phoneNumber = OWNER): void {
    const code = readQrCode(qr)
    const pairing = [...this.#pairings.values()].find(({ references }) => references.includes(code.reference))
    if (!pairing) throw new Error('no bot is showing that QR code')
    pairing.accept(code, this.#phone(phoneNumber))
  }

  addPeer(jid: string): Peer {
    const phone = this.#phone(jid.slice(0, jid.indexOf('@')))
    return {
      jid,
      undecryptable: phone.undecryptable,
      nextMessage: wait => phone.messages.next(wait),
      send: (text, { group, bot } = {}) => this.#send(phone, { conversation: text }, group ? this.#botsIn(group) : this.#botsOf(bot), group),
    }
  }

  addGroup(peers: Peer[], { phoneNumber = OWNER, ...options }: { subject?: string; addressingMode?: 'lid' | 'pn'; phoneNumber?: string } = {}): Group {
    const members = [phoneNumber, ...peers.map(({ jid }) => jid.slice(0, jid.indexOf('@')))]
    return this.#directory.addGroup(members.map(number => this.#directory.account(number)), options)
  }

  dropConnections(): void {
    for (const link of this.#links) link.drop()
  }

  removeBots(): void {
    for (const bot of [...this.#linked]) {
      bot.account.devices.delete(bot.id)
      this.#linked.delete(bot)
      bot.link?.drop()
    }
  }

  async close(): Promise<void> {
    this.dropConnections()
    await new Promise(resolve => this.#sockets.close(resolve))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #phone(phoneNumber: string): Phone {
    const account = this.#directory.account(phoneNumber)
    const known = account.devices.get(0)
    if (known instanceof Phone) return known
    const phone = new Phone(account)
    account.devices.set(0, phone)
    return phone
  }

  #botsOf(jid: string | undefined): Companion[] {
    const account = this.#directory.account(jid?.slice(0, jid.search(/[:@]/)) ?? OWNER)
    return [...this.#linked].filter(bot => bot.account === account)
  }

  #botsIn(group: Group): Companion[] {
    return [...this.#linked].filter(bot => group.members.includes(bot.account))
  }

  async #send(phone: Phone, message: proto.IMessage, bots: Companion[], group?: Group): Promise<string> {
    if (!bots.length) throw new Error('no bot is linked that this message could go to')
    const outgoing = await phone.seal(bots, message, group)
    let id = ''
    for (const bot of bots) {
      const one = outgoing.get(bot)
      if (!one) continue
      id = one.id
      this.counters.messagesToBots++
      bot.deliver(messageStanza(phone, bot, one))
    }
    return id
  }

  #opened(link: Link, payload: proto.ClientPayload, clientKey: Buffer): void {
    if (!payload.username) {
      const pairing = new Pairing(link, payload, clientKey, this.latencyMs)
      this.#pairings.set(link, pairing)
      pairing.offer()
      return
    }
    const device = this.#directory.account(String(payload.username)).devices.get(payload.device ?? 0)
    const bot = [...this.#linked].find(companion => companion === device)
    if (!bot?.keys.noiseKey.equals(clientKey)) {
      this.counters.refused++
      link.send({ tag: 'failure', attrs: { reason: '401', location: 'loopback' } })
      link.close()
      return
    }
    this.#logIn(link, bot)
  }

  #logIn(link: Link, bot: Companion): void {
    if (bot.link) {
      this.counters.conflicts++
      bot.link.send({ tag: 'stream:error', attrs: {}, content: [{ tag: 'conflict', attrs: { type: 'replaced' } }] })
      bot.link.close()
    }
    bot.link = link
    bot.active = false
    this.#bots.set(link, bot)
    this.counters.logins++
    link.send({ tag: 'success', attrs: { t: String(Math.floor(Date.now() / 1000)), lid: bot.account.lidJid(bot.id), location: 'loopback' } })
    link.send({
      tag: 'ib',
      attrs: { from: S_WHATSAPP_NET },
      content: [{ tag: 'edge_routing', attrs: {}, content: [{ tag: 'routing_info', attrs: {}, content: Buffer.from([8, 2, 8, 5]) }] }],
    })
  }

  #closed(link: Link): void {
    this.#links.delete(link)
    this.#pairings.delete(link)
    this.#bots.get(link)?.disconnected(link)
    this.#bots.delete(link)
  }

  async #received(link: Link, node: BinaryNode): Promise<void> {
    const pairing = this.#pairings.get(link)
    if (pairing) return this.#completePairing(link, pairing, node)
    const bot = this.#bots.get(link)
    if (!bot) return
    const { id } = node.attrs
    switch (node.tag) {
      case 'iq': return this.#asked(link, bot, node)
      case 'ack': return bot.confirm(id)
      case 'message': {
        this.counters.messagesFromBots++
        link.send({ tag: 'ack', attrs: { class: 'message', id: String(id), from: String(node.attrs['to']), t: String(Math.floor(Date.now() / 1000)) } })
        return routeMessage(this.#directory, bot, node)
      }
      case 'receipt': {
        bot.confirm(id)
        link.send({ tag: 'ack', attrs: { class: 'receipt', id: String(id), from: String(node.attrs['to']) } })
        if (node.attrs['type'] !== 'retry') return
        this.counters.retryReceipts++
        return routeRetry(this.#directory, bot, node)
      }
    }
  }

  #completePairing(link: Link, pairing: Pairing, node: BinaryNode): void {
    const bot = pairing.complete(node)
    if (!bot) return
    this.counters.pairings++
    bot.account.devices.set(bot.id, bot)
    this.#linked.add(bot)
    link.send({ tag: 'stream:error', attrs: { code: '515' } })
    link.close()
  }

  async #asked(link: Link, bot: Companion, iq: BinaryNode): Promise<void> {
    if (iq.attrs['type'] === 'result') return
    if (getBinaryNodeChild(iq, 'remove-companion-device')) return this.#unlink(link, bot)
    link.send(await answer({ directory: this.#directory, bot, counters: this.counters }, iq))
    if (iq.attrs['xmlns'] !== 'passive') return
    bot.activate()
    if (bot.introduced) return
    bot.introduced = true
    await this.#introduce(bot)
  }

  /** What the phone sends to a newly linked device: a key for the app state, and the (empty) chat history. */
  async #introduce(bot: Companion): Promise<void> {
    const phone = this.#phone(bot.account.phoneNumber)
    const { Type } = proto.Message.ProtocolMessage
    const history = proto.HistorySync.encode({ syncType: proto.HistorySync.HistorySyncType.INITIAL_BOOTSTRAP }).finish()
    await this.#send(phone, {
      protocolMessage: {
        type: Type.APP_STATE_SYNC_KEY_SHARE,
        appStateSyncKeyShare: {
          keys: [{
            keyId: { keyId: randomBytes(6) },
            keyData: { keyData: randomBytes(32), fingerprint: { rawId: 1, currentIndex: 0, deviceIndexes: [0, bot.id] }, timestamp: Date.now() },
          }],
        },
      },
    }, [bot])
    await this.#send(phone, {
      protocolMessage: {
        type: Type.HISTORY_SYNC_NOTIFICATION,
        historySyncNotification: {
          syncType: proto.HistorySync.HistorySyncType.INITIAL_BOOTSTRAP,
          initialHistBootstrapInlinePayload: deflateSync(history),
          progress: 100,
        },
      },
    }, [bot])
  }

  #unlink(link: Link, bot: Companion): void {
    bot.account.devices.delete(bot.id)
    this.#linked.delete(bot)
    link.close()
  }
}
