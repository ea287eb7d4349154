// The hand-written code of calls against the generated code, both ways.
import { expect, test } from 'vitest'
import { CONSUME, encodeConsume, encodeInbound, encodePeek, encodeSend, NOTE_INBOUND, PEEK, REFUND } from '../../src/caps/codec.js'
import { fromWire, toWire, type CapPolicy } from '../../src/caps/policy.js'
import { ADVANCE, encodeAdvance, encodeGet, encodeTouch, GET, RESET, type AdvanceTerms } from '../../src/conversations/codec.js'
import { CLAIM, CLAIM_BATCH, COMPLETE, encodeBatch, encodeClaim, encodeComplete, encodeExtend, encodeRelease, EXTEND, terms } from '../../src/dedup/codec.js'
import {
  CapPolicy as WirePolicy, ConsumeRequest, ConsumeResponse, NoteInboundRequest, NoteInboundResponse, PeekRequest, PeekResponse, RefundRequest, RefundResponse,
} from '../../src/gen/pannier/v1/cap.js'
import {
  AdvanceRequest, AdvanceResponse, GetConversationRequest, GetConversationResponse, ResetConversationResponse, TouchConversationRequest,
} from '../../src/gen/pannier/v1/conversation.js'
import {
  ClaimBatchRequest, ClaimBatchResponse, ClaimRequest, ClaimResponse, type ClaimResponse_Outcome, CompleteClaimRequest, CompleteClaimResponse, ExtendClaimRequest, ExtendClaimResponse, ReleaseClaimRequest,
} from '../../src/gen/pannier/v1/dedup.js'
import type { Method } from '../../src/pipe/call.js'
import { Reader } from '../../src/stream/wire.js'
import { decodeValue, encodeValue, type Value } from '../../src/value.js'

const ODD = ' a:b {x} * + é 😀 \u0000'
const UUID = /^[0-9a-f-]{36}$/
const AT = new Date(1_790_000_000_123)
const read = <T>(method: Method<T>, message: { finish(): Uint8Array }): T => method.decode(new Reader(Buffer.from(message.finish())))
const advance = (how: Partial<AdvanceTerms>): AdvanceRequest =>
  AdvanceRequest.decode(encodeAdvance('ns', {
    id: ODD, step: undefined, fields: {}, unset: [], replace: false, ttlMs: undefined, maxAgeMs: undefined, expectedVersion: undefined, expectedSteps: undefined, ...how,
  }))

test('requests of claims are what the generated code reads', () => {
  const how = terms('1.5s', '400d', true)
  expect(ClaimRequest.decode(encodeClaim('ns', ODD, 'print', how))).toEqual({
    namespace: 'ns', requestId: expect.stringMatching(UUID) as string, key: ODD, fingerprint: Buffer.from('print'), complete: true,
    inProgressTtl: { seconds: 1n, nanos: 500_000_000 }, retention: { seconds: 34_560_000n, nanos: 0 },
  })
  expect(ClaimRequest.decode(encodeClaim('', 'k', undefined, terms(undefined, undefined, false)))).toMatchObject({ inProgressTtl: undefined, retention: undefined, complete: false })
  const batch = ClaimBatchRequest.decode(encodeBatch('ns', [{ key: ODD }, { key: 'b', fingerprint: Buffer.from([1, 0]) }], how))
  expect(batch).toMatchObject({ namespace: 'ns', items: [{ key: ODD }, { key: 'b', fingerprint: Buffer.from([1, 0]) }], complete: true })
  const fence = 2 ** 52 + 1
  const complete = CompleteClaimRequest.decode(encodeComplete('ns', ODD, fence, { a: 1 }, '1ms'))
  expect(complete).toMatchObject({ key: ODD, fence: BigInt(fence), retention: { seconds: 0n, nanos: 1_000_000 } })
  expect(decodeValue(complete.result)).toEqual({ a: 1 })
  expect(ExtendClaimRequest.decode(encodeExtend('ns', ODD, fence, 2000))).toMatchObject({ key: ODD, fence: BigInt(fence), inProgressTtl: { seconds: 2n, nanos: 0 } })
  expect(ReleaseClaimRequest.decode(encodeRelease('ns', ODD, fence))).toMatchObject({ namespace: 'ns', key: ODD, fence: BigInt(fence), requestId: expect.stringMatching(UUID) as string })
})

test('each call has a request id of its own', () => {
  const ids = Array.from({ length: 100 }, () => ClaimRequest.decode(encodeClaim('ns', 'k', undefined, terms(undefined, undefined, true))).requestId)
  expect(new Set(ids).size).toBe(100)
})

test('answers to claims are read as they were written', () => {
  const wire = { outcome: 4, fence: 9n, retryAfter: { seconds: 3n, nanos: 1_000_000 }, result: Buffer.from('r'), expiresAt: AT, replayed: true }
  expect(read(CLAIM, ClaimResponse.encode(wire))).toEqual({ outcome: 'duplicate', fence: 9, retryAfterMs: 3001, result: Buffer.from('r'), expiresAt: AT, replayed: true })
  expect(read(CLAIM_BATCH, ClaimBatchResponse.encode({ items: [wire, { ...wire, outcome: 1 }] })).map(({ outcome }) => outcome)).toEqual(['duplicate', 'new'])
  expect(read(COMPLETE, CompleteClaimResponse.encode({ outcome: 1, expiresAt: AT }))).toEqual({ outcome: 'completed', expiresAt: AT })
  expect(read(EXTEND, ExtendClaimResponse.encode({ outcome: 2, expiresAt: undefined }))).toEqual({ outcome: 'leaseLost', expiresAt: undefined })
  expect(() => read(CLAIM, ClaimResponse.encode({ ...wire, outcome: 99 as ClaimResponse_Outcome }))).toThrow(/upgrade/)
})

test('requests of conversations are what the generated code reads', () => {
  const request = advance({
    step: 'é', fields: { [ODD]: 'text ü', empty: '', n: 5, raw: new Uint8Array([0, 255]) }, unset: ['gone'], replace: true, ttlMs: 1, maxAgeMs: 3_600_000, expectedVersion: 0,
  })
  expect(request).toMatchObject({
    namespace: 'ns', id: ODD, step: 'é', unset: ['gone'], replace: true, ttl: { seconds: 0n, nanos: 1_000_000 }, maxAge: { seconds: 3600n, nanos: 0 },
    expected: { $case: 'expectedVersion', value: 0n },
  })
  const values = Object.fromEntries(Object.entries(request.set).map(([name, value]) => [name, decodeValue(value)]))
  expect(values).toEqual({ [ODD]: 'text ü', empty: '', n: 5, raw: new Uint8Array([0, 255]) })
  expect(advance({})).toMatchObject({ step: undefined, ttl: undefined, expected: undefined, replace: false })
  expect(advance({ expectedSteps: ['idle', 'b'] }).expected).toEqual({ $case: 'expectedSteps', value: { steps: ['idle', 'b'] } })
  const large = advance({ fields: { a: 'x'.repeat(200_000), b: 'y' } }).set
  expect([large.a?.length, large.b?.toString()]).toEqual([200_000, 'y'])
  expect(GetConversationRequest.decode(encodeGet('ns', ODD))).toEqual({ namespace: 'ns', id: ODD })
  expect(TouchConversationRequest.decode(encodeTouch('ns', ODD, 5000))).toMatchObject({ id: ODD, ttl: { seconds: 5n, nanos: 0 } })
})

test('answers about conversations are read as they were written', () => {
  const state = {
    exists: true, step: 'b', fields: { ['__proto__']: Buffer.from('p'), empty: Buffer.alloc(0), [ODD]: Buffer.from('v') }, version: 7n,
    startedAt: AT, updatedAt: AT, expiresAt: AT, endsAt: undefined,
  }
  const result = read(ADVANCE, AdvanceResponse.encode({ outcome: 2, state, replayed: true }))
  expect(result).toMatchObject({ outcome: 'conflict', replayed: true, state: { exists: true, step: 'b', version: 7, startedAt: AT, expiresAt: AT, endsAt: undefined } })
  expect(Object.entries(result.state.fields).sort()).toEqual([[ODD, 'v'], ['__proto__', 'p'], ['empty', '']].sort())
  const idle = { exists: false, step: 'idle', fields: {}, version: 0n, startedAt: undefined, updatedAt: undefined, expiresAt: undefined, endsAt: undefined }
  expect(read(GET, GetConversationResponse.encode({ state: idle }))).toEqual({ exists: false, step: 'idle', fields: {}, version: 0 })
  expect(read(RESET, ResetConversationResponse.encode({ existed: true, replayed: false }))).toBe(true)
})

test('requests of caps are what the generated code reads', () => {
  expect(ConsumeRequest.decode(encodeConsume('ns', { recipient: ODD, sender: 's' }, ['a', 'b'], 'send', 3, 1500))).toEqual({
    namespace: 'ns', sendId: 'send', policies: ['a', 'b'], recipient: ODD, sender: 's', n: 3, mode: 2, reserveTtl: { seconds: 1n, nanos: 500_000_000 },
  })
  expect(ConsumeRequest.decode(encodeConsume('ns', {}, ['a'], 'send', undefined, undefined))).toMatchObject({ n: undefined, mode: 0, reserveTtl: undefined, recipient: '' })
  expect(ConsumeRequest.decode(encodeConsume('ns', {}, ['a'], 'send', undefined, 0))).toMatchObject({ mode: 2, reserveTtl: undefined })
  expect(RefundRequest.decode(encodeSend('ns', ODD))).toMatchObject({ namespace: 'ns', sendId: ODD, requestId: expect.stringMatching(UUID) as string })
  expect(PeekRequest.decode(encodePeek('ns', { recipient: 'r' }, ['a'], 2, 9))).toEqual({ namespace: 'ns', policies: ['a'], recipient: 'r', sender: '', n: 2, unit: 9 })
  expect(NoteInboundRequest.decode(encodeInbound('ns', 'r', 's'))).toMatchObject({ namespace: 'ns', recipient: 'r', sender: 's' })
})

test('answers about caps are read as they were written', () => {
  const usage = [{ policy: 'a', limit: 5n, used: 2n, remaining: 3n, resetAt: AT }, { policy: 'b', limit: 0n, used: 7n, remaining: 0n, resetAt: undefined }]
  const answer = { outcome: 4, usage, deniedBy: '', retryAfter: undefined, state: 1, reservedUntil: AT, failedOpen: false }
  expect(read(CONSUME, ConsumeResponse.encode(answer))).toEqual({
    allowed: true, outcome: 'replayed', state: 'reserved', reservedUntil: AT, failedOpen: false,
    usage: [{ policy: 'a', limit: 5, used: 2, remaining: 3, resetAt: AT }, { policy: 'b', limit: Infinity, used: 7, remaining: Infinity, resetAt: undefined }],
  })
  expect(read(CONSUME, ConsumeResponse.encode({ ...answer, outcome: 2, deniedBy: 'a', retryAfter: { seconds: 86_400n * 300n, nanos: 1_000_000 } }))).toEqual({
    allowed: false, outcome: 'denied', deniedBy: 'a', retryAfterMs: 25_920_000_001,
  })
  expect(read(REFUND, RefundResponse.encode({ outcome: 3 }))).toEqual({ outcome: 'unknown' })
  const peek = { usage: usage[0], never: true, retryAfter: { seconds: 1n, nanos: 0 }, unitAfter: undefined }
  expect(read(PEEK, PeekResponse.encode({ policies: [peek], serviceWindowUntil: AT }))).toEqual({
    serviceWindowUntil: AT, policies: [{ policy: 'a', limit: 5, used: 2, remaining: 3, resetAt: AT, never: true, retryAfterMs: 1000, unitAfterMs: undefined }],
  })
  expect(read(NOTE_INBOUND, NoteInboundResponse.encode({ openUntil: AT }))).toEqual(AT)
})

test('policies come back as they went', () => {
  const back = (policy: CapPolicy): unknown => fromWire(WirePolicy.decode(WirePolicy.encode(toWire(policy)).finish()))
  for (const policy of [
    { name: 'a', scope: 'recipient', algorithm: 'fixed', limit: 3, window: 3_600_000 },
    { name: 'a', scope: 'namespace', algorithm: 'fixed', limit: 3, timeZone: 'America/Mexico_City' },
    { name: 'a', scope: 'pair', algorithm: 'rolling', limit: 128, window: 1 },
    { name: 'a', scope: 'pair', algorithm: 'gcra', period: 0.003, burst: 45 },
    { name: 'a', scope: 'sender', algorithm: 'unique', limit: 250, window: 86_400_000 },
    { name: 'a', scope: 'sender', algorithm: 'unique', limit: Infinity, window: 86_400_000 },
  ] as CapPolicy[]) expect(back(policy)).toMatchObject({ ...policy, failOpen: false })
})

test('values come back as what they were', () => {
  for (const value of ['', 'text', 'ü😀', 'null', '{"a":1}', '\ud800 half', 0, -1.5, true, false, null, [], [1, 'a', null], { a: { b: [] } }, new Uint8Array(0), new Uint8Array([0xfe, 0x22]), new Uint8Array([0xff])] as Value[]) {
    expect(decodeValue(Buffer.from(encodeValue('set', value)))).toEqual(value)
  }
  // A text is kept as it is, for whoever looks from elsewhere; what is none of ours comes as bytes.
  expect(encodeValue('set', 'INV-7')).toBe('INV-7')
  expect(decodeValue(Buffer.from([0x61, 0x80]))).toEqual(new Uint8Array([0x61, 0x80]))
  expect(decodeValue(Buffer.from([0xfe, 0x80]))).toEqual(new Uint8Array([0xfe, 0x80]))
  for (const wrong of [undefined, Number.NaN, Infinity, 1n, () => 1, Symbol('s')]) {
    expect(() => encodeValue('set', wrong as Value)).toThrow(expect.objectContaining({ reason: 'BAD_FIELD', field: 'set' }) as Error)
  }
})

const refused = (reason: string, field: string): Error => expect.objectContaining({ code: 'INVALID_ARGUMENT', reason, field }) as Error

// The sidecar says the same of the same (tests with a sidecar: limits.test.ts).
test('what is out of bounds is refused here, naming the field', () => {
  const plain = terms(undefined, undefined, false)
  for (const key of ['', 'x'.repeat(513), '😀'.repeat(129), '\ud800', undefined, 7]) {
    expect(() => encodeClaim('ns', key as string, undefined, plain)).toThrow(refused('BAD_FIELD', 'key'))
  }
  encodeClaim('ns', '😀'.repeat(128), undefined, plain)
  for (const wrong of [0, -1, 1000.5, Infinity, Number.NaN, '25h', '1w', '0.5ms']) expect(() => terms(wrong as number, undefined, false)).toThrow(refused('BAD_FIELD', 'in_progress_ttl'))
  expect(() => terms(undefined, 400 * 86_400_000 + 1, false)).toThrow(refused('BAD_FIELD', 'retention'))
  expect(() => encodeClaim('ns', 'k', 'x'.repeat(513), plain)).toThrow(refused('BAD_FIELD', 'fingerprint'))
  expect(() => encodeBatch('ns', [], plain)).toThrow(refused('BAD_FIELD', 'items'))
  expect(() => encodeBatch('ns', Array.from({ length: 101 }, () => ({ key: 'k' })), plain)).toThrow(refused('TOO_LARGE', 'items'))
  expect(() => encodeBatch('ns', [{ key: 'k' }, { key: '' }], plain)).toThrow(refused('BAD_FIELD', 'items[1].key'))
  expect(() => encodeComplete('ns', 'k', 1, 'x'.repeat(4097), undefined)).toThrow(refused('TOO_LARGE', 'result'))
  expect(() => advance({ step: '' })).toThrow(refused('BAD_FIELD', 'step'))
  expect(() => advance({ fields: { a: 'x'.repeat(256 * 1024) } })).toThrow(refused('TOO_LARGE', 'set'))
  expect(() => advance({ fields: Object.fromEntries(Array.from({ length: 1001 }, (_, n) => [`f${n}`, 'x'])) })).toThrow(refused('TOO_LARGE', 'set'))
  expect(() => advance({ fields: { a: '1' }, unset: ['a'] })).toThrow(refused('BAD_FIELD', 'unset'))
  expect(() => advance({ expectedVersion: 1, expectedSteps: ['a'] })).toThrow(refused('BAD_FIELD', 'expected_steps'))
  expect(() => advance({ expectedVersion: -1 })).toThrow(refused('BAD_FIELD', 'expected_version'))
  expect(() => advance({ expectedSteps: [] })).toThrow(refused('BAD_FIELD', 'expected_steps'))
  for (const n of [0, -1, 1.5, 1_000_000_001, Number.NaN]) expect(() => encodeConsume('ns', {}, ['a'], 's', n, undefined)).toThrow(refused('BAD_FIELD', 'n'))
  expect(() => encodeConsume('ns', {}, [], 's', 1, undefined)).toThrow(refused('BAD_FIELD', 'policies'))
  expect(() => encodeConsume('ns', {}, ['a'], '', 1, undefined)).toThrow(refused('BAD_FIELD', 'send_id'))
  expect(() => encodeConsume('ns', { recipient: '' }, ['a'], 's', 1, undefined)).toThrow(refused('BAD_FIELD', 'recipient'))
  expect(() => toWire({ name: 'a', algorithm: 'rolling', limit: 129, window: 1 })).toThrow(refused('BAD_FIELD', 'policy.rolling.limit'))
  expect(() => toWire({ name: 'a', algorithm: 'fixed', limit: 1, window: 0 })).toThrow(refused('BAD_FIELD', 'policy.fixed.window'))
  expect(() => toWire({ name: 'a', algorithm: 'gcra', period: 0.0005, burst: 1 })).toThrow(refused('BAD_FIELD', 'policy.gcra.period'))
  expect(() => toWire({ name: 'a', algorithm: 'fixed', limit: 1, wnidow: 5 } as unknown as CapPolicy)).toThrow('did you mean `window`')
})
