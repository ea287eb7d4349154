// One bot connection: WebSocket bytes to frames, frames through the handshake, then binary nodes both ways. Nodes are
// handled strictly one after the other, as they came.
import { type BinaryNode, decodeBinaryNode, encodeBinaryNode, type KeyPair, NOISE_WA_HEADER, proto } from 'baileys'
import type { WebSocket } from 'ws'
import { Responder, type Transport } from './noise.js'

/**
 * How long the server waits after the handshake before it speaks. 6.7.24 derives its transport keys on another thread once
 * it has sent its last handshake message, and takes a frame that comes before for garbage; no real server is that near.
 */
const DISTANCE_MS = 50

export interface LinkEvents {
  /** The handshake is done; `clientKey` is the bot's static Noise key. */
  opened(link: Link, payload: proto.ClientPayload, clientKey: Buffer): Promise<void> | void
  node(link: Link, node: BinaryNode): Promise<void> | void
  closed(link: Link): void
  /** Anything the server could not make sense of: a test fails on it. */
  failed(error: Error): void
}

export class Link {
  #unread: Buffer = Buffer.alloc(0)
  #introduced = false
  #responder: Responder
  #transport: Transport | undefined
  #queue: Promise<void> = Promise.resolve()
  #open = true

  constructor(
    private readonly socket: WebSocket,
    identity: KeyPair,
    private readonly certificate: Uint8Array,
    private readonly events: LinkEvents,
  ) {
    this.#responder = new Responder(identity)
    socket.on('message', (data: Buffer) => this.#receive(data))
    socket.on('error', () => socket.terminate())
    socket.on('close', () => {
      this.#open = false
      events.closed(this)
    })
  }

  get isOpen(): boolean {
    return this.#open && this.#transport !== undefined
  }

  /** Sends a node; a closed connection swallows it, as a network would. */
  send(node: BinaryNode): void {
    if (!this.#open || !this.#transport) return
    this.#write(this.#transport.seal(encodeBinaryNode(node)))
  }

  /** Ends the connection after what was sent so far. */
  close(): void {
    this.#open = false
    this.socket.close()
  }

  /** Ends it as a broken network does. */
  drop(): void {
    this.#open = false
    this.socket.terminate()
  }

  #write(body: Uint8Array): void {
    const size = Buffer.alloc(3)
    size.writeUIntBE(body.length, 0, 3)
    this.socket.send(Buffer.concat([size, body]))
  }

  #receive(data: Buffer): void {
    this.#unread = Buffer.concat([this.#unread, data])
    if (!this.#introduced && !this.#readIntroduction()) return
    while (this.#unread.length >= 3) {
      const size = this.#unread.readUIntBE(0, 3)
      if (this.#unread.length < 3 + size) return
      const frame = Buffer.from(this.#unread.subarray(3, 3 + size))
      this.#unread = this.#unread.subarray(3 + size)
      this.#queue = this.#queue.then(() => this.#handle(frame)).catch((error: Error) => this.events.failed(error))
    }
  }

  /** The first bytes are the protocol header, behind the edge routing information when the bot has some. */
  #readIntroduction(): boolean {
    let start = 0
    if (this.#unread.length >= 7 && this.#unread.toString('latin1', 0, 2) === 'ED') start = 7 + this.#unread.readUIntBE(4, 3)
    const end = start + NOISE_WA_HEADER.length
    if (this.#unread.length < end) return false
    if (!this.#unread.subarray(start, end).equals(NOISE_WA_HEADER)) {
      this.events.failed(new Error('the connection does not start with the WhatsApp header'))
      this.drop()
      return false
    }
    this.#unread = this.#unread.subarray(end)
    this.#introduced = true
    return true
  }

  async #handle(frame: Buffer): Promise<void> {
    if (this.#transport) {
      await this.events.node(this, await decodeBinaryNode(this.#transport.open(frame)))
      return
    }
    const { clientHello, clientFinish } = proto.HandshakeMessage.decode(frame)
    if (clientHello?.ephemeral) {
      const serverHello = this.#responder.hello(clientHello.ephemeral, this.certificate)
      this.#write(proto.HandshakeMessage.encode({ serverHello }).finish())
    } else if (clientFinish?.static && clientFinish.payload) {
      const { clientKey, payload, transport } = this.#responder.finish(clientFinish.static, clientFinish.payload)
      this.#transport = transport
      await new Promise(resolve => setTimeout(resolve, DISTANCE_MS))
      await this.events.opened(this, proto.ClientPayload.decode(payload), clientKey)
    } else {
      throw new Error('a handshake message holds neither hello nor finish')
    }
  }
}
