// A bot's device as the server knows it: the public keys it uploaded, its connection, and the stanzas it has not
// confirmed yet. Those are sent again at the next login, as the real server does, so a bot killed between receiving and
// confirming sees the message again.
import type { BinaryNode } from 'baileys'
import type { Account, Device, KeyBundle, PublicPreKey } from './directory.js'
import type { Link } from './link.js'

export interface CompanionIdentity {
  noiseKey: Buffer
  registrationId: number
  identity: Buffer
  signedPreKey: PublicPreKey & { signature: Uint8Array }
}

export class Companion implements Device {
  readonly preKeys: PublicPreKey[] = []
  /** The connection that is logged in, if any. */
  link: Link | undefined
  /** The bot said that it is ready for messages on this connection. */
  active = false
  /** The phone has sent its history to this device. */
  introduced = false
  signedPreKey: PublicPreKey & { signature: Uint8Array }
  readonly #unconfirmed = new Map<string, BinaryNode>()

  constructor(
    readonly account: Account,
    readonly id: number,
    readonly keys: CompanionIdentity,
    private readonly latencyMs: number,
  ) {
    this.signedPreKey = keys.signedPreKey
  }

  get jid(): string {
    return this.account.pn(this.id)
  }

  takeBundle(): KeyBundle {
    return {
      registrationId: this.keys.registrationId,
      identity: this.keys.identity,
      signedPreKey: this.signedPreKey,
      preKey: this.preKeys.shift(),
    }
  }

  /** Sends a stanza that the bot must confirm, as soon as it has travelled here or at the bot's next login. */
  deliver(stanza: BinaryNode): void {
    setTimeout(() => {
      this.#unconfirmed.set(String(stanza.attrs['id']), stanza)
      if (this.active) this.link?.send(stanza)
    }, this.latencyMs)
  }

  confirm(id: string | undefined): void {
    if (id !== undefined) this.#unconfirmed.delete(id)
  }

  /** The bot is ready: everything it missed, then word that this was all. */
  activate(): void {
    this.active = true
    let position = 0
    for (const stanza of this.#unconfirmed.values()) {
      this.link?.send({ ...stanza, attrs: { ...stanza.attrs, offline: String(position++) } })
    }
    this.link?.send({
      tag: 'ib',
      attrs: { from: 's.whatsapp.net' },
      content: [{ tag: 'offline', attrs: { count: String(position) } }],
    })
  }

  disconnected(link: Link): void {
    if (this.link !== link) return
    this.link = undefined
    this.active = false
  }
}
