// What the client's own code costs a call, without any sidecar: JSON, cache, encoding, decoding. `npm run bench:codec`
import { BufferJSON } from 'baileys'
import { randomBytes } from 'node:crypto'
import { AttachRequest, AttachResponse } from '../dist/gen/pannier/v1/session.js'
import { decode, encode } from '../dist/baileys/json.js'
import { RecordCache } from '../dist/baileys/cache.js'
import { decodeAnswer } from '../dist/stream/answer-codec.js'
import { encodeCommit } from '../dist/stream/commit-codec.js'

const key = (n = 32) => randomBytes(n).toString('base64')

function session(skipped) {
  const chains = {}
  for (let c = 0; c < 3; c++) {
    const messageKeys = {}
    for (let i = 0; i < skipped; i++) messageKeys[i + c * 100] = key()
    chains[key(33)] = { chainKey: { counter: skipped, key: key() }, chainType: c ? 2 : 1, messageKeys }
  }
  return { _sessions: { [key(33)]: { registrationId: 123, currentRatchet: { rootKey: key() }, indexInfo: { baseKey: key(33), closed: -1 }, _chains: chains } }, version: 'v1' }
}

function bench(name, work, n = 20_000) {
  for (let i = 0; i < n / 5; i++) work()
  const started = performance.now()
  for (let i = 0; i < n; i++) work()
  console.log(`${name.padEnd(54)} ${(((performance.now() - started) * 1000) / n).toFixed(2).padStart(8)} µs`)
}

const value = session(30)
const stored = encode(value)
console.log(`a session record of ${stored.size} bytes`)
bench('encode: snapshot to text', () => encode(value))
bench('  the same with Baileys\' replacer', () => JSON.stringify(value, BufferJSON.replacer), 4000)
bench('decode: a fresh object', () => decode(stored))
bench('  the same with Baileys\' reviver', () => JSON.parse(stored.value, BufferJSON.reviver), 4000)
const cache = new RecordCache(32 * 1024 * 1024)
for (let i = 0; i < 1000; i++) cache.set('session', `s${i}`, stored)
bench('cache: look up', () => cache.get('session', 's500'), 1_000_000)
const put = { type: 'session', id: '4915112345678_1.0', kind: 2, value: stored.value, size: stored.size }
bench('commit: encode by hand', () => encodeCommit(77, 10_000, 12_345, { puts: [put], deletes: [] }))
const generated = { seq: 77, timeoutMs: 10_000, op: { $case: 'commit', value: { writerId: '', opSeq: 12_345n, puts: [{ record: { ...put, value: Buffer.from(stored.value), revision: 0n }, ifRevision: undefined }], deletes: [], fragments: [], more: false, expectedRevision: undefined, incarnation: 0n, attributes: undefined, minDurability: 0 } } }
bench('  the same with generated code', () => Buffer.from(AttachRequest.encode(generated).finish()))
const committed = Buffer.from(AttachResponse.encode({ seq: 77, event: { $case: 'committed', value: { baseRevision: 12_344n, revision: 12_345n, replayed: false, durability: 2, durabilityMet: true } } }).finish())
bench('committed: decode by hand', () => decodeAnswer(committed), 200_000)
bench('  the same with generated code', () => AttachResponse.decode(committed), 200_000)
const records = Buffer.from(AttachResponse.encode({ seq: 77, event: { $case: 'records', value: { records: [{ type: 'session', id: put.id, kind: 2, value: Buffer.from(stored.value), revision: 9n }], fragments: [], more: false, revision: 12_345n } } }).finish())
bench('records: decode by hand', () => decodeAnswer(records), 100_000)
bench('  the same with generated code', () => AttachResponse.decode(records), 100_000)
