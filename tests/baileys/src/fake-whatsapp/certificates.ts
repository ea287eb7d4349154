// The chain that the server shows in its handshake. WhatsApp's root key is pinned in Baileys as a mutable object, which
// is the one thing a test has to change: the bot's code stays as published.
import { Curve, type KeyPair, proto, WA_CERT_DETAILS } from 'baileys'

const LEAF_SERIAL = 2
const INTERMEDIATE_SERIAL = 1

export interface Authority {
  /** What a bot must trust: see `trustAuthority`. */
  publicKey: Buffer
  /** Encoded chain root → intermediate → `serverKey`. */
  certify(serverKey: Uint8Array): Uint8Array
}

export function makeAuthority(root: KeyPair = Curve.generateKeyPair()): Authority {
  const intermediate = Curve.generateKeyPair()
  const sign = (signer: Uint8Array, details: proto.CertChain.NoiseCertificate.IDetails) => {
    const encoded = proto.CertChain.NoiseCertificate.Details.encode(details).finish()
    return { details: encoded, signature: Curve.sign(signer, encoded) }
  }
  return {
    publicKey: Buffer.from(root.public),
    certify: serverKey =>
      proto.CertChain.encode({
        leaf: sign(intermediate.private, { serial: LEAF_SERIAL, issuerSerial: INTERMEDIATE_SERIAL, key: serverKey }),
        intermediate: sign(root.private, {
          serial: INTERMEDIATE_SERIAL,
          issuerSerial: WA_CERT_DETAILS.SERIAL,
          key: intermediate.public,
        }),
      }).finish(),
  }
}

/** Makes every Baileys socket opened in this process from now on accept servers certified by that root key. */
export function trustAuthority(publicKey: Uint8Array): void {
  WA_CERT_DETAILS.PUBLIC_KEY = Buffer.from(publicKey)
}
