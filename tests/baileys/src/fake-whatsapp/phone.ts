// A simulated device with real Signal sessions: a contact of the bot, or the phone that the bot is linked to. It runs
// Baileys' own Signal repository over a store of its own in memory.
import {
  addTransactionCapability,
  type BinaryNode,
  DEFAULT_CONNECTION_CONFIG,
  encodeWAMessage,
  extractE2ESessionFromRetryReceipt,
  generateMessageIDV2,
  generateSignalPubKey,
  Curve,
  proto,
  type SignalRepositoryWithLIDStore,
  unpadRandomMax16,
} from 'baileys'
import { Inbox } from '../inbox.js'
import { logger } from '../logger.js'
import '../signal-console.js'
import { memoryAuthState } from '../memory-store.js'
import type { Account, Device, Group, KeyBundle } from './directory.js'

/** A message that a device received and decrypted. */
export interface ReceivedMessage {
  id: string
  /** The bot's device that sent it. */
  from: string
  /** The group it was sent to, if it was. */
  group: string | undefined
  text: string
  message: proto.IMessage
}

/** An encrypted part of a message stanza. */
export interface Sealed {
  type: string
  ciphertext: Uint8Array
}

/** What a device sends: the server wraps it in a stanza for each linked bot. */
export interface Outgoing {
  id: string
  group: Group | undefined
  /** How often this message was asked for again. */
  retry: number
  sealed: Sealed[]
}

/** A device that a phone can address. */
export type Recipient = Device & { readonly jid: string }

interface Sent {
  message: proto.IMessage
  group: Group | undefined
}

const textOf = (message: proto.IMessage): string =>
  message.conversation ?? message.extendedTextMessage?.text ?? message.deviceSentMessage?.message?.conversation ??
  message.deviceSentMessage?.message?.extendedTextMessage?.text ?? ''

export class Phone implements Device {
  readonly id = 0
  readonly messages = new Inbox<ReceivedMessage>('message from the bot')
  /** Messages of the bot that this device could not decrypt. */
  readonly undecryptable: { id: string; reason: string }[] = []
  readonly auth = memoryAuthState()
  readonly #keys = addTransactionCapability(this.auth.keys, logger, { maxCommitRetries: 1, delayBetweenTriesMs: 0 })
  readonly #signal: SignalRepositoryWithLIDStore
  readonly #sent = new Map<string, Sent>()
  readonly #groupsIntroduced = new Set<string>()
  #queue: Promise<unknown> = Promise.resolve()

  constructor(readonly account: Account) {
    this.#signal = DEFAULT_CONNECTION_CONFIG.makeSignalRepository(
      { creds: this.auth.creds, keys: this.#keys }, logger, async () => undefined)
  }

  async takeBundle(): Promise<KeyBundle> {
    const { creds, keys } = this.auth
    const preKey = Curve.generateKeyPair()
    const id = creds.nextPreKeyId++
    await keys.set({ 'pre-key': { [id]: preKey } })
    return {
      registrationId: creds.registrationId,
      identity: creds.signedIdentityKey.public,
      signedPreKey: {
        id: creds.signedPreKey.keyId,
        public: creds.signedPreKey.keyPair.public,
        signature: creds.signedPreKey.signature,
      },
      preKey: { id, public: preKey.public },
    }
  }

  /** Encrypts one message for some bot devices, starting a session from the key bundle where there is none yet. */
  seal(recipients: Recipient[], message: proto.IMessage, group?: Group): Promise<Map<Recipient, Outgoing>> {
    return this.#inOrder(async () => {
      const id = generateMessageIDV2(this.account.pn())
      this.#sent.set(id, { message, group })
      const outgoing = new Map<Recipient, Outgoing>()
      for (const recipient of recipients) {
        const sealed = group ? await this.#introduce(recipient, group) : [await this.#sealFor(recipient, message)]
        outgoing.set(recipient, { id, group, retry: 0, sealed })
      }
      // After the introductions: those hold the sender key as it was before this message.
      if (group) {
        const forAll = await this.#sealForGroup(message, group)
        for (const { sealed } of outgoing.values()) sealed.push(forAll)
      }
      return outgoing
    })
  }

  /** Reads a message of the bot. False: it did not decrypt, ask the bot again. */
  receive(from: string, id: string, parts: Sealed[], group?: string): Promise<boolean> {
    return this.#inOrder(async () => {
      const message: proto.IMessage = {}
      try {
        for (const part of parts) Object.assign(message, await this.#open(from, part, group))
      } catch (error) {
        this.undecryptable.push({ id, reason: (error as Error).message })
        return false
      }
      if (message.senderKeyDistributionMessage && Object.keys(message).length === 1) return true
      this.messages.push({ id, from, group, text: textOf(message), message })
      return true
    })
  }

  /** The bot could not decrypt `receipt.attrs.id`: encrypts it once more, over a new session if the bot sent keys for one. */
  sealAgain(to: Recipient, receipt: BinaryNode, retry: number): Promise<Outgoing | undefined> {
    return this.#inOrder(async () => {
      const id = String(receipt.attrs['id'])
      const sent = this.#sent.get(id)
      if (!sent) return undefined
      const session = extractE2ESessionFromRetryReceipt(receipt)
      if (session) await this.#signal.injectE2ESession({ jid: this.#alias(to.jid), session })
      const message = sent.group ? { ...sent.message, senderKeyDistributionMessage: await this.#senderKey(sent.group) } : sent.message
      return { id, group: sent.group, retry, sealed: [await this.#sealFor(to, message)] }
    })
  }

  async #open(bot: string, part: Sealed, group?: string): Promise<proto.IMessage> {
    const from = this.#alias(bot)
    const padded = part.type === 'skmsg'
      ? await this.#signal.decryptGroupMessage({ group: group ?? '', authorJid: from, msg: part.ciphertext })
      : await this.#signal.decryptMessage({ jid: from, type: part.type as 'pkmsg' | 'msg', ciphertext: part.ciphertext })
    const message = proto.Message.decode(unpadRandomMax16(padded))
    const senderKey = message.senderKeyDistributionMessage
    if (senderKey) await this.#signal.processSenderKeyDistributionMessage({ authorJid: from, item: senderKey })
    return message.toJSON() as proto.IMessage
  }

  async #sealFor(to: Recipient, message: proto.IMessage): Promise<Sealed> {
    const jid = this.#alias(to.jid)
    if (!(await this.#signal.validateSession(jid)).exists) {
      const bundle = await to.takeBundle()
      await this.#signal.injectE2ESession({
        jid,
        session: {
          registrationId: bundle.registrationId,
          identityKey: generateSignalPubKey(bundle.identity),
          signedPreKey: {
            keyId: bundle.signedPreKey.id,
            publicKey: generateSignalPubKey(bundle.signedPreKey.public),
            signature: bundle.signedPreKey.signature,
          },
          ...(bundle.preKey && { preKey: { keyId: bundle.preKey.id, publicKey: generateSignalPubKey(bundle.preKey.public) } }),
        },
      })
    }
    return this.#signal.encryptMessage({ jid, data: encodeWAMessage(message) })
  }

  /** The group's sender key, for a device that has not been given it yet. */
  async #introduce(to: Recipient, group: Group): Promise<Sealed[]> {
    const introduction = `${group.jid} ${to.jid}`
    if (this.#groupsIntroduced.has(introduction)) return []
    this.#groupsIntroduced.add(introduction)
    return [await this.#sealFor(to, { senderKeyDistributionMessage: await this.#senderKey(group) })]
  }

  async #sealForGroup(message: proto.IMessage, group: Group): Promise<Sealed> {
    const { ciphertext } = await this.#signal.encryptGroupMessage(
      { group: group.jid, meId: this.account.pn(), data: encodeWAMessage(message) })
    return { type: 'skmsg', ciphertext }
  }

  async #senderKey(group: Group): Promise<proto.Message.ISenderKeyDistributionMessage> {
    return {
      groupId: group.jid,
      axolotlSenderKeyDistributionMessage:
        await this.#signal.getSenderKeyDistributionMessage({ group: group.jid, meId: this.account.pn() }),
    }
  }

  /**
   * What this device calls a bot in its own store: a name that no other device in this process uses. libsignal queues work
   * by address for the whole process and runs what waits in the transaction of who came first, where it is lost.
   */
  #alias(bot: string): string {
    return bot.replace(/[:@]/, `-${this.account.phoneNumber}$&`)
  }

  /** A device does one thing at a time, so what it sends leaves in the order in which it was encrypted. */
  #inOrder<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#queue.then(work)
    this.#queue = done.catch(() => undefined)
    return done
  }
}
