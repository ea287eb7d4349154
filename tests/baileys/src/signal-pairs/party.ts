// One end of a conversation: Baileys' Signal repository with its transactions over some auth state, used in the way and
// order in which Baileys' socket uses it.
import type { AuthenticationState, SignalKeyStoreWithTransaction, SignalRepositoryWithLIDStore } from 'baileys'
import { type Baileys, baileys, type Version } from '../baileys-versions.js'
import type { AuthStore } from '../bot.js'
import { checkedKeys, StoreRecord } from '../checked-keys.js'
import { logger } from '../logger.js'
import '../signal-console.js'

/** As many as Baileys makes for the server at the first login. */
const FIRST_PRE_KEYS = 812
const COMMIT = { maxCommitRetries: 10, delayBetweenTriesMs: 100 }

export interface Group {
  jid: string
  members: Party[]
}

export interface Sealed {
  type: 'pkmsg' | 'msg' | 'skmsg'
  ciphertext: Uint8Array
}

export interface Envelope {
  from: Party
  group: Group | undefined
  /** For a group: the sender's key first, if the receiver has not got it yet. */
  introduction: Sealed | undefined
  sealed: Sealed
  text: string
}

export class Party {
  readonly jid: string
  readonly lid: string
  readonly inbox: Envelope[] = []
  /** All that was ever stored here: reads are checked against it, also after a restart. */
  readonly record = new StoreRecord()
  /** Public pre-keys that nobody has used yet: what the server would hand out. */
  readonly #preKeys: { id: number; public: Uint8Array }[] = []
  readonly #baileys: Baileys
  #store!: AuthStore
  #keys!: SignalKeyStoreWithTransaction
  #signal!: SignalRepositoryWithLIDStore
  #saves: Promise<unknown>[] = []

  constructor(
    readonly name: string,
    number: string,
    private readonly version: Version,
    private readonly openStore: () => Promise<AuthStore>,
  ) {
    this.jid = `${number}@s.whatsapp.net`
    this.lid = `9${number}@lid`
    this.#baileys = baileys(version)
  }

  get state(): AuthenticationState {
    return this.#store.state
  }

  async open(): Promise<void> {
    this.#store = await this.openStore()
    this.#keys = this.#baileys.addTransactionCapability(checkedKeys(this.#store.state.keys, this.record), logger, COMMIT)
    this.#signal = this.#baileys.DEFAULT_CONNECTION_CONFIG.makeSignalRepository(
      { creds: this.#store.state.creds, keys: this.#keys }, logger, async () => undefined)
  }

  /** Closes the store and opens it again, as a restarted process does: only what is stored survives. */
  async reopen(): Promise<void> {
    await this.close()
    await this.open()
  }

  /** Reads back everything that was ever stored. */
  async verify(): Promise<void> {
    const keys = checkedKeys(this.#store.state.keys, this.record)
    for (const type of ['session', 'pre-key', 'sender-key', 'sender-key-memory', 'lid-mapping', 'device-list', 'identity-key'] as const) {
      await keys.get(type, this.record.ids(type))
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#saves.splice(0))
    this.#signal.close?.()
    await this.#store.close?.()
  }

  /** Makes and stores pre-keys as at the first login: one big set, then the credentials, not awaited. */
  async uploadPreKeys(count = FIRST_PRE_KEYS): Promise<void> {
    const { creds } = this.state
    await this.#keys.transaction(async () => {
      const { update, preKeys } = await this.#baileys.getNextPreKeys({ creds, keys: this.#keys }, count)
      this.#updateCreds(update)
      for (const [id, pair] of Object.entries(preKeys)) this.#preKeys.push({ id: Number(id), public: pair.public })
    }, this.jid)
  }

  async send(to: Party, text: string): Promise<void> {
    await this.#keys.transaction(async () => {
      const sealed = await this.#sealFor(to, Buffer.from(text))
      await this.#keys.get('tctoken', [to.lid])
      to.inbox.push({ from: this, group: undefined, introduction: undefined, sealed, text })
    }, this.jid)
  }

  async sendToGroup(group: Group, text: string): Promise<void> {
    await this.#keys.transaction(async () => {
      const { [group.jid]: stored } = await this.#keys.get('sender-key-memory', [group.jid])
      const introduced = stored ?? {}
      const { ciphertext, senderKeyDistributionMessage } =
        await this.#signal.encryptGroupMessage({ group: group.jid, meId: this.jid, data: Buffer.from(text) })
      const envelopes: [Party, Envelope][] = []
      for (const member of group.members) {
        if (member === this) continue
        const introduction = introduced[member.jid] ? undefined : await this.#sealFor(member, senderKeyDistributionMessage)
        introduced[member.jid] = true
        envelopes.push([member, { from: this, group, introduction, sealed: { type: 'skmsg', ciphertext }, text }])
      }
      await this.#keys.set({ 'sender-key-memory': { [group.jid]: introduced } })
      for (const [member, envelope] of envelopes) member.inbox.push(envelope)
    }, this.jid)
  }

  /** Decrypts a message and checks that it says what was sent. */
  async receive({ from, group, introduction, sealed, text }: Envelope): Promise<void> {
    const sender = await this.#learnLid(from)
    if (introduction && group) {
      await this.#signal.processSenderKeyDistributionMessage({
        authorJid: from.jid,
        item: { groupId: group.jid, axolotlSenderKeyDistributionMessage: await this.#decrypt(sender, introduction) },
      })
    }
    const plaintext = sealed.type === 'skmsg'
      ? await this.#signal.decryptGroupMessage({ group: group?.jid ?? '', authorJid: from.jid, msg: sealed.ciphertext })
      : await this.#decrypt(sender, sealed)
    const read = Buffer.from(plaintext).toString()
    if (read !== text) throw new Error(`${this.name} read another text than ${from.name} sent`)
  }

  #updateCreds(update: Partial<AuthenticationState['creds']>): void {
    Object.assign(this.state.creds, update)
    this.#saves.push(this.#store.saveCreds())
  }

  /** rc14 learns a sender's LID with the message, and moves the session over to it before it decrypts. */
  async #learnLid(from: Party): Promise<string> {
    if (this.version === '6.7.24') return from.jid
    if (!(await this.#signal.lidMapping.getPNForLID(from.lid))) {
      await this.#signal.lidMapping.storeLIDPNMappings([{ lid: from.lid, pn: from.jid }])
      await this.#keys.set({ 'device-list': { [from.jid.slice(0, from.jid.indexOf('@'))]: ['0'] } })
      await this.#signal.migrateSession(from.jid, from.lid)
    }
    return from.lid
  }

  #decrypt(jid: string, { type, ciphertext }: Sealed): Promise<Uint8Array> {
    return this.#signal.decryptMessage({ jid, type: type as 'pkmsg' | 'msg', ciphertext })
  }

  async #sealFor(to: Party, data: Uint8Array): Promise<Sealed> {
    if (!(await this.#hasSession(to))) {
      await this.#signal.injectE2ESession({ jid: to.jid, session: to.#takeBundle() })
    }
    return this.#signal.encryptMessage({ jid: to.jid, data })
  }

  async #hasSession(to: Party): Promise<boolean> {
    if (this.version !== '6.7.24') return (await this.#signal.validateSession(to.jid)).exists
    const address = this.#signal.jidToSignalProtocolAddress(to.jid)
    return (await this.#keys.get('session', [address]))[address] !== undefined
  }

  #takeBundle() {
    const { registrationId, signedIdentityKey, signedPreKey } = this.state.creds
    const { generateSignalPubKey } = this.#baileys
    const preKey = this.#preKeys.shift()
    return {
      registrationId,
      identityKey: generateSignalPubKey(signedIdentityKey.public),
      signedPreKey: {
        keyId: signedPreKey.keyId,
        publicKey: generateSignalPubKey(signedPreKey.keyPair.public),
        signature: signedPreKey.signature,
      },
      ...(preKey && { preKey: { keyId: preKey.id, publicKey: generateSignalPubKey(preKey.public) } }),
    }
  }
}
