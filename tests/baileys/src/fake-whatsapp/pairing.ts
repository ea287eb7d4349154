// Linking a bot to a phone by QR code: the server offers references, the bot shows one with its keys, the phone signs
// the bot's identity, and the bot answers with a signature of its own. Both signatures are made and checked for real.
import {
  type BinaryNode,
  Curve,
  getBinaryNodeChild,
  getBinaryNodeChildBuffer,
  hmacSign,
  proto,
  S_WHATSAPP_NET,
  WA_ADV_ACCOUNT_SIG_PREFIX,
  WA_ADV_DEVICE_SIG_PREFIX,
} from 'baileys'
import { randomBytes } from 'node:crypto'
import { Companion, type CompanionIdentity } from './companion.js'
import type { Link } from './link.js'
import type { Phone } from './phone.js'

const REFERENCES = 6
const SUCCESS_ID = 'pair-success-1'

export interface QrCode {
  reference: string
  noiseKey: Buffer
  identity: Buffer
  advSecret: Buffer
}

/** Reads what a bot shows as a QR code: rc14 puts a URL in front, 6.7 does not. */
export function readQrCode(qr: string): QrCode {
  const [reference, noiseKey, identity, advSecret] = qr.slice(qr.lastIndexOf('#') + 1).split(',')
  if (!reference || !noiseKey || !identity || !advSecret) throw new Error('not a pairing QR code')
  return {
    reference,
    noiseKey: Buffer.from(noiseKey, 'base64'),
    identity: Buffer.from(identity, 'base64'),
    advSecret: Buffer.from(advSecret, 'base64'),
  }
}

/** A connection of a bot that has no account yet. */
export class Pairing {
  readonly references = Array.from({ length: REFERENCES }, () => `2@${randomBytes(18).toString('base64url')}`)
  readonly #keys: CompanionIdentity
  #companion: Companion | undefined
  #details: Uint8Array | undefined

  constructor(
    private readonly link: Link,
    payload: proto.ClientPayload,
    noiseKey: Buffer,
    private readonly latencyMs: number,
  ) {
    const { eRegid, eIdent, eSkeyId, eSkeyVal, eSkeySig } = payload.devicePairingData ?? {}
    if (!eRegid || !eIdent || !eSkeyId || !eSkeyVal || !eSkeySig) throw new Error('the bot registered without its keys')
    this.#keys = {
      noiseKey,
      registrationId: Buffer.from(eRegid).readUInt32BE(),
      identity: Buffer.from(eIdent),
      signedPreKey: { id: Buffer.from(eSkeyId).readUIntBE(0, 3), public: eSkeyVal, signature: eSkeySig },
    }
  }

  offer(): void {
    this.link.send({
      tag: 'iq',
      attrs: { from: S_WHATSAPP_NET, type: 'set', id: 'pair-device-1', xmlns: 'md' },
      content: [{
        tag: 'pair-device',
        attrs: {},
        content: this.references.map(reference => ({ tag: 'ref', attrs: {}, content: Buffer.from(reference) })),
      }],
    })
  }

  /** The phone scanned the code: links the bot as its next device and tells it so. */
  accept(qr: QrCode, phone: Phone): void {
    if (!qr.noiseKey.equals(this.#keys.noiseKey)) throw new Error('the QR code shows another Noise key than the connection')
    if (!qr.identity.equals(this.#keys.identity)) throw new Error('the QR code shows another identity than the connection')
    const { account } = phone
    const deviceId = Math.max(...account.devices.keys()) + 1
    const accountKey = phone.auth.creds.signedIdentityKey
    this.#companion = new Companion(account, deviceId, this.#keys, this.latencyMs)
    this.#details = proto.ADVDeviceIdentity.encode({
      rawId: this.#keys.registrationId,
      timestamp: Math.floor(Date.now() / 1000),
      keyIndex: deviceId,
      accountType: proto.ADVEncryptionType.E2EE,
      deviceType: proto.ADVEncryptionType.E2EE,
    }).finish()
    const signed = proto.ADVSignedDeviceIdentity.encode({
      details: this.#details,
      accountSignatureKey: accountKey.public,
      accountSignature: Curve.sign(accountKey.private, Buffer.concat([WA_ADV_ACCOUNT_SIG_PREFIX, this.#details, this.#keys.identity])),
    }).finish()
    const sealed = proto.ADVSignedDeviceIdentityHMAC.encode({ details: signed, hmac: hmacSign(signed, qr.advSecret) }).finish()
    this.link.send({
      tag: 'iq',
      attrs: { from: S_WHATSAPP_NET, type: 'set', id: SUCCESS_ID, t: String(Math.floor(Date.now() / 1000)) },
      content: [{
        tag: 'pair-success',
        attrs: {},
        content: [
          { tag: 'device-identity', attrs: {}, content: sealed },
          { tag: 'platform', attrs: { name: 'android' } },
          { tag: 'device', attrs: { jid: account.pn(deviceId), lid: account.lidJid(deviceId) } },
        ],
      }],
    })
  }

  /** The linked bot, once its answer is in and its signature holds; undefined for any other node. */
  complete(node: BinaryNode): Companion | undefined {
    if (node.tag !== 'iq' || node.attrs['id'] !== SUCCESS_ID || !this.#companion || !this.#details) return undefined
    const answer = getBinaryNodeChildBuffer(getBinaryNodeChild(node, 'pair-device-sign'), 'device-identity')
    if (!answer) throw new Error('the bot did not sign its identity')
    const { deviceSignature } = proto.ADVSignedDeviceIdentity.decode(answer)
    const phone = this.#companion.account.devices.get(0) as Phone
    const signed = Buffer.concat([
      WA_ADV_DEVICE_SIG_PREFIX, this.#details, this.#keys.identity, phone.auth.creds.signedIdentityKey.public,
    ])
    if (!deviceSignature || !Curve.verify(this.#keys.identity, signed, deviceSignature)) {
      throw new Error('the signature of the bot over its identity does not hold')
    }
    return this.#companion
  }
}
