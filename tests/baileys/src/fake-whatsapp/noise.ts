// The server's side of Noise_XX_25519_AESGCM_SHA256, as the bot speaks it. Built from Baileys' exported primitives, so
// the bot and the server can only disagree about the order of the steps, never about the ciphers.
import { aesDecryptGCM, aesEncryptGCM, Curve, hkdf, type KeyPair, NOISE_MODE, NOISE_WA_HEADER, sha256 } from 'baileys'

const NO_BYTES = Buffer.alloc(0)

/** The 96-bit nonce of the n-th message under one key: the counter in the last four bytes, big-endian. */
const nonce = (counter: number): Buffer => {
  const iv = Buffer.alloc(12)
  iv.writeUInt32BE(counter, 8)
  return iv
}

/** Keys and counters of an established connection; each direction counts alone. */
export class Transport {
  #sent = 0
  #received = 0

  constructor(
    private readonly sendKey: Uint8Array,
    private readonly receiveKey: Uint8Array,
  ) {}

  seal(plaintext: Uint8Array): Buffer {
    return aesEncryptGCM(plaintext, this.sendKey, nonce(this.#sent++), NO_BYTES)
  }

  open(ciphertext: Uint8Array): Buffer {
    return aesDecryptGCM(ciphertext, this.receiveKey, nonce(this.#received++), NO_BYTES)
  }
}

/** One handshake, from the client's first ephemeral key to the transport keys. */
export class Responder {
  #hash: Buffer = Buffer.from(NOISE_MODE, 'latin1')
  #salt: Uint8Array = this.#hash
  #key: Uint8Array = this.#hash
  #counter = 0
  readonly #ephemeral = Curve.generateKeyPair()

  constructor(private readonly identity: KeyPair) {
    this.#mixHash(NOISE_WA_HEADER)
  }

  /** Answers the client's hello: our ephemeral key, then static key and certificate under the keys agreed so far. */
  hello(clientEphemeral: Uint8Array, certificate: Uint8Array): { ephemeral: Uint8Array; static: Buffer; payload: Buffer } {
    const client = Buffer.from(clientEphemeral)
    this.#mixHash(client)
    this.#mixHash(this.#ephemeral.public)
    this.#mixKey(Curve.sharedKey(this.#ephemeral.private, client))
    const sealedStatic = this.#encrypt(this.identity.public)
    this.#mixKey(Curve.sharedKey(this.identity.private, client))
    return { ephemeral: this.#ephemeral.public, static: sealedStatic, payload: this.#encrypt(certificate) }
  }

  /** Reads the client's last handshake message. Throws when it was not made for this handshake. */
  finish(sealedStatic: Uint8Array, sealedPayload: Uint8Array): { clientKey: Buffer; payload: Buffer; transport: Transport } {
    const clientKey = this.#decrypt(sealedStatic)
    this.#mixKey(Curve.sharedKey(this.#ephemeral.private, clientKey))
    const payload = this.#decrypt(sealedPayload)
    const [clientToServer, serverToClient] = this.#derive(NO_BYTES)
    return { clientKey, payload, transport: new Transport(serverToClient, clientToServer) }
  }

  #mixHash(data: Uint8Array): void {
    this.#hash = sha256(Buffer.concat([this.#hash, data])) as Buffer
  }

  #derive(secret: Uint8Array): [Uint8Array, Uint8Array] {
    const key = hkdf(secret, 64, { salt: this.#salt, info: '' })
    return [key.subarray(0, 32), key.subarray(32)]
  }

  #mixKey(secret: Uint8Array): void {
    ;[this.#salt, this.#key] = this.#derive(secret)
    this.#counter = 0
  }

  #encrypt(plaintext: Uint8Array): Buffer {
    const sealed = aesEncryptGCM(plaintext, this.#key, nonce(this.#counter++), this.#hash)
    this.#mixHash(sealed)
    return sealed
  }

  #decrypt(sealed: Uint8Array): Buffer {
    const plaintext = aesDecryptGCM(sealed, this.#key, nonce(this.#counter++), this.#hash)
    this.#mixHash(sealed)
    return plaintext
  }
}
