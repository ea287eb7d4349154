// Who exists on the fake server: accounts by phone number and by LID, their devices, and the groups they are in.
import { jidDecode, jidEncode } from 'baileys'

export interface PublicPreKey {
  id: number
  public: Uint8Array
}

/** What the server hands out so that somebody can start a Signal session with a device. */
export interface KeyBundle {
  registrationId: number
  identity: Uint8Array
  signedPreKey: PublicPreKey & { signature: Uint8Array }
  preKey?: PublicPreKey | undefined
}

/** A device that can be sent to: a simulated phone, or a linked bot. */
export interface Device {
  readonly id: number
  readonly account: Account
  /** Takes one one-time pre-key out of the device's stock. */
  takeBundle(): KeyBundle | Promise<KeyBundle>
}

export class Account {
  readonly devices = new Map<number, Device>()

  constructor(
    readonly phoneNumber: string,
    readonly lid: string,
  ) {}

  /** Address by phone number, of the account or of one device. */
  pn(device?: number): string {
    return jidEncode(this.phoneNumber, 's.whatsapp.net', device)
  }

  /** Address by LID, of the account or of one device. */
  lidJid(device?: number): string {
    return jidEncode(this.lid, 'lid', device)
  }
}

export interface Group {
  readonly jid: string
  readonly subject: string
  readonly members: Account[]
  readonly addressingMode: 'lid' | 'pn'
}

export class Directory {
  readonly #byPhone = new Map<string, Account>()
  readonly #byLid = new Map<string, Account>()
  readonly #groups = new Map<string, Group>()

  account(phoneNumber: string): Account {
    let account = this.#byPhone.get(phoneNumber)
    if (!account) {
      account = new Account(phoneNumber, `9${phoneNumber}`)
      this.#byPhone.set(phoneNumber, account)
      this.#byLid.set(account.lid, account)
    }
    return account
  }

  findAccount(jid: string): Account | undefined {
    const { user, server } = jidDecode(jid) ?? {}
    if (user === undefined) return undefined
    return (server === 'lid' ? this.#byLid : this.#byPhone).get(user)
  }

  findDevice(jid: string): Device | undefined {
    return this.findAccount(jid)?.devices.get(jidDecode(jid)?.device ?? 0)
  }

  addGroup(members: Account[], { subject = 'Group', addressingMode = 'lid' }: { subject?: string; addressingMode?: 'lid' | 'pn' }): Group {
    const group: Group = { jid: `1203630000000${1000 + this.#groups.size}@g.us`, subject, members, addressingMode }
    this.#groups.set(group.jid, group)
    return group
  }

  group(jid: string): Group | undefined {
    return this.#groups.get(jid)
  }
}
