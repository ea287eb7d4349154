// What is refused in the client is refused by the sidecar, too, with the same code, reason and field; what the client lets through, it takes.
import type { ServiceError } from '@grpc/grpc-js'
import { expect, test } from 'vitest'
import { encodeAdvance, type AdvanceTerms } from '../src/conversations/codec.js'
import { fromService, type PannierError } from '../src/errors.js'
import { ConsumeRequest, SetPolicyRequest } from '../src/gen/pannier/v1/cap.js'
import { AdvanceRequest, GetConversationRequest, TouchConversationRequest } from '../src/gen/pannier/v1/conversation.js'
import { ClaimBatchRequest, ClaimRequest, CompleteClaimRequest, ExtendClaimRequest } from '../src/gen/pannier/v1/dedup.js'
import type { CapPolicy, Fields, Pannier } from '../src/index.js'
import { sidecarForAll } from './support/sidecar.js'
import { error } from './support/states.js'

let pannier: Pannier
sidecarForAll(place => ({ pannier } = place))

/** A unary call past the checks of this package. */
const raw = <Request>(call: (request: Request, done: (failure: ServiceError | null) => void) => unknown, request: Request): Promise<unknown> =>
  new Promise((resolve, reject) => call(request, failure => (failure ? reject(fromService(failure)) : resolve(undefined))))
const said = ({ code, reason, field }: PannierError): object => ({ code, reason, field })

const requestId = 'r'.repeat(36)
const ms = (n: number): { seconds: bigint; nanos: number } => ({ seconds: BigInt(Math.floor(n / 1000)), nanos: Math.round((n % 1000) * 1e6) })
const DAY = 86_400_000
const LONG = 'x'.repeat(513)

async function same(mine: Promise<unknown>, theirs: Promise<unknown>): Promise<void> {
  const [here, there] = await Promise.all([error(mine), error(theirs)])
  expect(said(here)).toEqual(said(there))
}

test('claims', async () => {
  const { dedup, raw: { dedup: service } } = pannier
  const claim = (fields: object): Promise<unknown> => raw<ClaimRequest>((request, done) => service.claim(request, done), ClaimRequest.fromPartial({ requestId, key: 'k', ...fields }))
  await same(dedup.claim(''), claim({ key: '' }))
  await same(dedup.claim(LONG), claim({ key: LONG }))
  await same(dedup.claim('k', { fingerprint: LONG }), claim({ fingerprint: Buffer.from(LONG) }))
  for (const wrong of [0, -1, 0.5, DAY + 1]) await same(dedup.claim('k', { inProgressTtl: wrong }), claim({ inProgressTtl: ms(wrong) }))
  for (const wrong of [0, -1, 0.5, 400 * DAY + 1]) await same(dedup.claimOnce('k', { ttl: wrong }), claim({ retention: ms(wrong), complete: true }))
  const batch = (items: object[]): Promise<unknown> => raw<ClaimBatchRequest>((request, done) => service.claimBatch(request, done), ClaimBatchRequest.fromPartial({ requestId, items }))
  await same(dedup.claimBatch([]), batch([]))
  await same(dedup.claimBatch(Array.from({ length: 101 }, (_, n) => `${n}`)), batch(Array.from({ length: 101 }, (_, n) => ({ key: `${n}` }))))
  await same(dedup.claimBatch(['a', '']), batch([{ key: 'a' }, { key: '' }]))
  await same(dedup.claimBatch([{ key: 'a', fingerprint: LONG }]), batch([{ key: 'a', fingerprint: Buffer.from(LONG) }]))
  const held = await dedup.claim('held')
  if (!held.claimed) return expect.fail(held.outcome)
  const fence = BigInt(held.fence)
  const complete = (fields: object): Promise<unknown> =>
    raw<CompleteClaimRequest>((request, done) => service.completeClaim(request, done), CompleteClaimRequest.fromPartial({ requestId, key: 'held', fence, ...fields }))
  await same(held.complete('x'.repeat(4097)), complete({ result: Buffer.alloc(4097) }))
  await same(held.complete('x', { retention: 0 }), complete({ retention: ms(0) }))
  await same(held.extend(0), raw<ExtendClaimRequest>((request, done) => service.extendClaim(request, done), ExtendClaimRequest.fromPartial({ requestId, key: 'held', fence, inProgressTtl: ms(0) })))
  // At the limit it is taken.
  const most = await dedup.claim('😀'.repeat(128), { fingerprint: 'x'.repeat(512), inProgressTtl: '24h', retention: '400d' })
  expect(most.claimed && (await most.complete('x'.repeat(4096), { retention: 1 })).outcome).toBe('completed')
})

test('conversations', async () => {
  const { conversations, raw: { conversation: service } } = pannier
  const advance = (fields: object): Promise<unknown> =>
    raw<AdvanceRequest>((request, done) => service.advance(request, done), AdvanceRequest.fromPartial({ requestId, id: 'c', ...fields }))
  await same(conversations.get(''), raw<GetConversationRequest>((request, done) => service.getConversation(request, done), GetConversationRequest.fromPartial({ id: '' })))
  await same(conversations.touch('c', { ttl: 400 * DAY + 1 }), raw<TouchConversationRequest>((request, done) => service.touchConversation(request, done),
    TouchConversationRequest.fromPartial({ requestId, id: 'c', ttl: ms(400 * DAY + 1) })))
  await same(conversations.advance(LONG), advance({ id: LONG }))
  for (const step of ['', 'x'.repeat(129)]) await same(conversations.advance('c', step), advance({ step }))
  for (const wrong of [0, -1, 0.5, 400 * DAY + 1]) {
    await same(conversations.advance('c', 's', {}, { ttl: wrong }), advance({ step: 's', ttl: ms(wrong) }))
    await same(conversations.advance('c', 's', {}, { maxAge: wrong }), advance({ step: 's', maxAge: ms(wrong) }))
  }
  const sets: Fields[] = [{ '': '1' }, { ['x'.repeat(129)]: '1' }, { a: 'x'.repeat(256 * 1024) }, Object.fromEntries(Array.from({ length: 1001 }, (_, n) => [`f${n}`, 'x']))]
  for (const fields of sets) {
    const set = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, Buffer.from(value as string)]))
    await same(conversations.advance('c', 's', fields), advance({ step: 's', set }))
  }
  await same(conversations.advance('c', 's', {}, { unset: [''] }), advance({ step: 's', unset: [''] }))
  await same(conversations.advance('c', 's', { a: '1' }, { unset: ['a'] }), advance({ step: 's', set: { a: Buffer.from('1') }, unset: ['a'] }))
  for (const steps of [[], [''], Array.from({ length: 33 }, (_, n) => `${n}`)]) {
    await same(conversations.advance('c', 's', {}, { expectedSteps: steps }), advance({ step: 's', expected: { $case: 'expectedSteps', value: { steps } } }))
  }
  const most = { ['x'.repeat(128)]: 'x'.repeat(256 * 1024 - 128) }
  expect((await conversations.advance('c', 'x'.repeat(128), most, { ttl: '400d', maxAge: '400d' })).outcome).toBe('advanced')
  // The codec alone, for what no option lets through.
  const terms: AdvanceTerms = { id: 'c', step: 's', fields: {}, unset: [], replace: false, ttlMs: undefined, maxAgeMs: undefined, expectedVersion: 0, expectedSteps: ['s'] }
  expect(() => encodeAdvance('ns', terms)).toThrow('expected_steps')
})

test('caps', async () => {
  const { caps, raw: { cap: service } } = pannier
  const set = (policy: object): Promise<unknown> =>
    raw<SetPolicyRequest>((request, done) => service.setPolicy(request, done), SetPolicyRequest.fromPartial({ requestId, policy: { name: 'p', scope: 1, ...policy } }))
  const bad: [CapPolicy, object][] = [
    [{ name: '', algorithm: 'fixed', limit: 1 }, { name: '', algorithm: { $case: 'fixed', value: { limit: 1 } } }],
    [{ name: 'p', algorithm: 'fixed', limit: 0 }, { algorithm: { $case: 'fixed', value: { limit: 0 } } }],
    [{ name: 'p', algorithm: 'fixed', limit: 1, window: 0 }, { algorithm: { $case: 'fixed', value: { limit: 1, window: ms(0) } } }],
    [{ name: 'p', algorithm: 'fixed', limit: 1, window: 1000.5 }, { algorithm: { $case: 'fixed', value: { limit: 1, window: ms(1000.5) } } }],
    [{ name: 'p', algorithm: 'fixed', limit: 1, window: 400 * DAY + 1 }, { algorithm: { $case: 'fixed', value: { limit: 1, window: ms(400 * DAY + 1) } } }],
    [{ name: 'p', algorithm: 'fixed', limit: 1, window: 5, timeZone: 'UTC' }, { algorithm: { $case: 'fixed', value: { limit: 1, window: ms(5), timeZone: 'UTC' } } }],
    [{ name: 'p', algorithm: 'rolling', limit: 129, window: 5 }, { algorithm: { $case: 'rolling', value: { limit: 129, window: ms(5) } } }],
    [{ name: 'p', algorithm: 'gcra', period: 0, burst: 5 }, { algorithm: { $case: 'gcra', value: { period: ms(0), burst: 5 } } }],
    [{ name: 'p', algorithm: 'gcra', period: 5, burst: 0 }, { algorithm: { $case: 'gcra', value: { period: ms(5), burst: 0 } } }],
    [{ name: 'p', algorithm: 'unique', limit: 0 }, { algorithm: { $case: 'unique', value: { limit: 0 } } }],
  ]
  for (const [policy, wire] of bad) await same(caps.setPolicy(policy), set(wire))
  // What only the sidecar can judge.
  expect(said(await error(caps.setPolicy({ name: 'p', algorithm: 'fixed', limit: 1, timeZone: 'Mars/Olympus' })))).toEqual({ code: 'INVALID_ARGUMENT', reason: 'BAD_FIELD', field: 'policy.fixed.time_zone' })
  for (const policy of [
    { name: 'x'.repeat(128), algorithm: 'fixed', limit: 1_000_000_000, window: '400d' }, { name: 'm', algorithm: 'fixed', limit: 3, window: 2 ** 31 + 1 },
    { name: 'r', algorithm: 'rolling', limit: 128, window: 1 }, { name: 'g', algorithm: 'gcra', period: 0.001, burst: 1 },
  ] as CapPolicy[]) expect((await caps.setPolicy(policy)).created).toBe(true)
  const consume = (fields: object): Promise<unknown> =>
    raw<ConsumeRequest>((request, done) => service.consume(request, done), ConsumeRequest.fromPartial({ policies: ['m'], sendId: 's', ...fields }))
  const send = { sendId: 's' }
  await same(caps.consume({}, [], send), consume({ policies: [] }))
  await same(caps.consume({}, Array.from({ length: 9 }, (_, n) => `${n}`), send), consume({ policies: Array.from({ length: 9 }, (_, n) => `${n}`) }))
  await same(caps.consume({}, ['m', 'm'], send), consume({ policies: ['m', 'm'] }))
  await same(caps.consume({}, 'm', { sendId: '' }), consume({ sendId: '' }))
  await same(caps.consume({ recipient: LONG }, 'm', send), consume({ recipient: LONG }))
  await same(caps.consume({ sender: LONG }, 'm', send), consume({ sender: LONG }))
  for (const n of [0, -1, 1_000_000_001]) await same(caps.consume({}, 'm', { ...send, n }), consume({ n }))
  for (const wrong of [0, DAY + 1]) await same(caps.consume({}, 'm', { ...send, reserve: wrong }), consume({ mode: 2, reserveTtl: ms(wrong) }))
  expect((await caps.peek({}, 'm')).policies[0]?.used).toBe(0)
})
