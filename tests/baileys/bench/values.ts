// Makes up values for a trace: of the shape that Baileys stores under that type, of the size that the trace names, the same
// for the same seed. Keys are random bytes, so they compress as little as real ones.
import { type AuthenticationCreds, BufferJSON, initAuthCreds, proto } from 'baileys'
import { Random } from '../src/random.js'
import type { KeyType } from './trace.js'

export const bufferJson = (value: unknown): string => JSON.stringify(value, BufferJSON.replacer)

const key = (random: Random, length = 32): string => random.bytes(length).toString('base64')

/** Random base64 text of exactly that length. */
const filler = (random: Random, length: number): string =>
  random.bytes(Math.ceil((length * 3) / 4)).toString('base64').slice(0, Math.max(0, length))

/** Text of an object entry, with its comma: `"name":value,`. */
const entryLength = (name: string, value: unknown): number => name.length + 4 + bufferJson(value).length

export function makeValue(type: KeyType, size: number, random: Random): unknown {
  switch (type) {
    case 'pre-key': return { private: random.bytes(32), public: random.bytes(32) }
    case 'identity-key': return Buffer.concat([Buffer.from([5]), random.bytes(32)])
    case 'lid-mapping': return String(random.next()).slice(2).padEnd(size, '7').slice(0, size - 2)
    case 'device-list': return deviceList(size)
    case 'sender-key': return senderKey(size, random)
    case 'sender-key-memory': return senderKeyMemory(size, random)
    case 'app-state-sync-key': return appStateSyncKey(random)
    case 'app-state-sync-version': return appStateSyncVersion(size, random)
    case 'tctoken': return { token: random.bytes(Math.floor(((size - 60) * 3) / 4)), timestamp: '1790000000' }
    case 'session': return session(size, random)
  }
}

function deviceList(size: number): string[] {
  const devices = ['0']
  for (let left = size - '["0"]'.length; left >= 4; left -= devices.at(-1)!.length + 3) {
    devices.push(left === 4 || left === 8 ? '7' : left < 8 ? '1'.repeat(left - 3) : '42')
  }
  return devices
}

/** Baileys stores the JSON text of all chains as bytes; in there the keys are arrays of numbers. */
function senderKey(size: number, random: Random): Buffer {
  const length = Math.floor((size - '{"type":"Buffer","data":""}'.length) / 4) * 3
  const states: unknown[] = []
  let text = '[]'
  while (length - text.length > 20) {
    const state = {
      senderKeyId: random.below(2 ** 31),
      senderChainKey: { iteration: random.below(1_000), seed: random.bytes(32) },
      senderSigningKey: { public: Buffer.concat([Buffer.from([5]), random.bytes(32)]), private: Buffer.alloc(0) },
      senderMessageKeys: [],
    }
    const longer = JSON.stringify([...states, state])
    if (longer.length > length) break
    states.push(state)
    text = longer
  }
  // What is left over is filled with what does not compress.
  return Buffer.from(text + filler(random, length - text.length))
}

function senderKeyMemory(size: number, random: Random): Record<string, boolean> {
  const told: Record<string, boolean> = {}
  let left = size - 1
  while (left > 0) {
    const jid = `${String(random.below(2 ** 31)).padStart(10, '1')}${String(random.below(2 ** 31)).slice(0, 4)}:${random.below(9)}@lid`
    const length = entryLength(jid, true)
    if (left < 2 * length) {
      told[jid.padEnd(left - entryLength('', true), '0')] = true
      break
    }
    told[jid] = true
    left -= length
  }
  return told
}

const appStateSyncKey = (random: Random): unknown =>
  proto.Message.AppStateSyncKeyData.fromObject({
    keyData: random.bytes(32),
    fingerprint: { rawId: random.below(2 ** 31), currentIndex: 2, deviceIndexes: [0, 1, 2] },
    timestamp: 1_790_000_000_000,
  })

function appStateSyncVersion(size: number, random: Random): unknown {
  const indexValueMap: Record<string, { valueMac: Buffer }> = {}
  const value = { version: 1 + random.below(900), hash: random.bytes(128), indexValueMap }
  let left = size - bufferJson(value).length + 1
  while (left > 0) {
    const valueMac = random.bytes(32)
    const length = entryLength('', { valueMac }) + 44
    if (left < 2 * length) {
      if (left > length - 44) indexValueMap[filler(random, left - (length - 44))] = { valueMac }
      break
    }
    indexValueMap[key(random)] = { valueMac }
    left -= length
  }
  return value
}

interface Chain {
  chainKey: { counter: number; key?: string }
  chainType: number
  messageKeys: Record<string, string>
}

interface SessionEntry {
  registrationId: number
  currentRatchet: Record<string, unknown> & { rootKey: string }
  indexInfo: Record<string, unknown>
  _chains: Record<string, Chain>
}

/** A Signal session of libsignal: an open one, older closed ones, chains, and keys of messages that were skipped. */
function session(size: number, random: Random): unknown {
  const open = sessionEntry(random, -1)
  const sessions: Record<string, SessionEntry> = { [key(random, 33)]: open }
  const value = { _sessions: sessions, version: 'v1' }
  let left = size - bufferJson(value).length
  const spend = (length: number): boolean => {
    if (left < length) return false
    left -= length
    return true
  }
  while (left > 1_500 && Object.keys(sessions).length < 40 && random.next() < 0.7) {
    const closed = sessionEntry(random, 1_790_000_000_000)
    if (spend(entryLength('', closed) + 44)) sessions[key(random, 33)] = closed
  }
  for (;;) {
    const chain: Chain = { chainKey: { counter: random.below(90) }, chainType: 2, messageKeys: {} }
    while (random.next() < 0.5) {
      chain.messageKeys[String(random.below(2_000))] = key(random)
    }
    if (!spend(entryLength('', chain) + 44)) break
    open._chains[key(random, 33)] = chain
  }
  open.currentRatchet.rootKey += filler(random, left)
  return value
}

const sessionEntry = (random: Random, closed: number): SessionEntry => ({
  registrationId: random.below(16_384),
  currentRatchet: {
    ephemeralKeyPair: { pubKey: key(random, 33), privKey: key(random) },
    lastRemoteEphemeralKey: key(random, 33),
    previousCounter: random.below(50),
    rootKey: key(random),
  },
  indexInfo: {
    baseKey: key(random, 33),
    baseKeyType: 1 + random.below(2),
    closed,
    used: 1_790_000_000_000 + random.below(1_000_000),
    created: 1_790_000_000_000,
    remoteIdentityKey: key(random, 33),
  },
  _chains: { [key(random, 33)]: { chainKey: { counter: random.below(90), key: key(random) }, chainType: 1, messageKeys: {} } },
})

/** Size from which credentials can be those of a linked bot. */
const LINKED = 1_800

/** Credentials of about that size; what the fixed part leaves over goes into processed history messages. */
export function makeCreds(size: number, random: Random): AuthenticationCreds {
  const creds: AuthenticationCreds = {
    ...initAuthCreds(),
    noiseKey: { private: random.bytes(32), public: random.bytes(32) },
    signedIdentityKey: { private: random.bytes(32), public: random.bytes(32) },
    pairingEphemeralKeyPair: { private: random.bytes(32), public: random.bytes(32) },
    signedPreKey: { keyPair: { private: random.bytes(32), public: random.bytes(32) }, signature: random.bytes(64), keyId: 1 },
    advSecretKey: key(random),
    registrationId: random.below(16_384),
  }
  if (size >= LINKED) {
    creds.me = { id: '15559990000:1@s.whatsapp.net', lid: '915559990000:1@lid', name: 'bot' }
    creds.account = {
      details: random.bytes(18), accountSignatureKey: random.bytes(32),
      accountSignature: random.bytes(64), deviceSignature: random.bytes(64),
    }
    creds.platform = 'android'
    creds.routingInfo = random.bytes(12)
  }
  for (;;) {
    const message = {
      key: { remoteJid: '15559990000@s.whatsapp.net', fromMe: true, id: random.bytes(10).toString('hex').toUpperCase() },
      messageTimestamp: 1_790_000_000 + random.below(100_000),
    }
    if (bufferJson(creds).length + bufferJson(message).length + 1 > size) return creds
    creds.processedHistoryMessages.push(message)
  }
}
