// The pipe against an HTTP/2 server of Node's own, which answers as it is told: what goes in one write, what is sent again, what
// each call is told. With a real sidecar: ../calls-faults.test.ts.
import * as http2 from 'node:http2'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { CLAIM, encodeClaim, terms, type ClaimAnswer } from '../../src/dedup/codec.js'
import { encodeGet, GET } from '../../src/conversations/codec.js'
import type { PannierError } from '../../src/errors.js'
import { ClaimResponse_Outcome } from '../../src/gen/pannier/v1/dedup.js'
import { PipeRequest, PipeResponse } from '../../src/gen/pannier/v1/pipe.js'
import { ErrorInfo } from '../../src/gen/pannier/v1/status.js'
import { Pipe } from '../../src/pipe/pipe.js'
import { Channel } from '../../src/transport/channel.js'
import { framed, MessageSplitter } from '../../src/transport/message-splitter.js'

const cleanup: (() => void)[] = []
afterEach(() => cleanup.splice(0).forEach(clean => clean()))

interface Peer {
  /** Each write of the client as it came, of all streams. */
  chunks: PipeRequest[][]
  requests: PipeRequest[]
  streams: http2.ServerHttp2Stream[]
  sessions: http2.ServerHttp2Session[]
  port: number
}

/** A peer that does this with each chunk of requests. */
async function peer(act: (requests: PipeRequest[], stream: http2.ServerHttp2Stream, peer: Peer) => void, port = 0): Promise<Peer> {
  const made: Peer = { chunks: [], requests: [], streams: [], sessions: [], port: 0 }
  const server = http2.createServer()
  server.on('session', session => made.sessions.push(session))
  server.on('stream', stream => {
    made.streams.push(stream)
    const splitter = new MessageSplitter()
    stream.on('error', () => {})
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
    stream.on('data', (chunk: Buffer) => {
      const requests: PipeRequest[] = []
      splitter.push(chunk, message => requests.push(PipeRequest.decode(message)))
      made.chunks.push(requests)
      made.requests.push(...requests)
      act(requests, stream, made)
    })
  })
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  made.port = (server.address() as AddressInfo).port
  cleanup.push(() => {
    for (const session of made.sessions) session.destroy()
    server.close()
  })
  return made
}

function pipe(port: number, timeoutMs = 5000): Pipe {
  const channel = new Channel(`127.0.0.1:${port}`, undefined)
  cleanup.push(() => channel.close())
  return new Pipe({ stream: (path, listener, hold) => channel.open(path, {}, listener, hold) }, timeoutMs)
}

const claim = (over: Pipe, key: string, timeoutMs?: number): Promise<ClaimAnswer> => over.call(CLAIM, encodeClaim('ns', key, undefined, terms(undefined, undefined, true)), timeoutMs)
const keyOf = (request: PipeRequest): string => (request.call?.$case === 'claim' ? request.call.value.key : '')
const requestId = (request: PipeRequest): string => (request.call?.$case === 'claim' ? request.call.value.requestId : '')
const yes = ({ seq }: PipeRequest): Buffer =>
  framed(PipeResponse.encode({
    seq,
    answer: { $case: 'claim', value: { outcome: ClaimResponse_Outcome.OUTCOME_NEW, fence: BigInt(seq), retryAfter: undefined, result: Buffer.alloc(0), expiresAt: new Date(1), replayed: false } },
  }).finish())
const no = ({ seq }: PipeRequest, code: number, reason: string, metadata: Record<string, string> = {}): Buffer => {
  const details = [{ typeUrl: 'type.googleapis.com/google.rpc.ErrorInfo', value: Buffer.from(ErrorInfo.encode({ reason, domain: 'pannier', metadata }).finish()) }]
  return framed(PipeResponse.encode({ seq, answer: { $case: 'error', value: { code, message: reason, details } } }).finish())
}
const UNAVAILABLE = 14
const INVALID_ARGUMENT = 3
const error = (work: Promise<unknown>): Promise<PannierError> => work.then(() => expect.fail('it did not fail'), (reason: PannierError) => reason)

test('the calls of one tick go in one write, also those that answers bring about; the answers may come in any order', async () => {
  const { port, chunks } = await peer((requests, stream) => stream.write(Buffer.concat(requests.map(yes).reverse())))
  const over = pipe(port)
  await claim(over, 'first')
  const twice = async (n: number): Promise<number[]> => [(await claim(over, `a${n}`)).fence, (await claim(over, `b${n}`)).fence]
  const fences = await Promise.all(Array.from({ length: 50 }, (_, n) => twice(n)))
  expect(chunks.map(chunk => chunk.length)).toEqual([1, 50, 50])
  expect(new Set(fences.flat()).size).toBe(100)
  expect(chunks[2]?.map(keyOf)).toContain('b49')
})

test('never more than 256 are on their way; the others wait their turn, and all are answered', async () => {
  const open = new Set<number>()
  let most = 0
  const { port, requests } = await peer((some, stream) => {
    for (const one of some) open.add(one.seq)
    most = Math.max(most, open.size)
    for (const one of some) setTimeout(() => (open.delete(one.seq), stream.write(yes(one))), Math.random() * 20)
  })
  const over = pipe(port)
  const all = await Promise.all(Array.from({ length: 2000 }, (_, n) => claim(over, `k${n}`)))
  expect(all).toHaveLength(2000)
  expect(most).toBe(256)
  // In the order of the calls.
  expect(requests.map(keyOf)).toEqual(Array.from({ length: 2000 }, (_, n) => `k${n}`))
})

test('each call carries what is left of its own deadline', async () => {
  const { port, requests } = await peer((some, stream) => some.forEach(one => stream.write(yes(one))))
  const over = pipe(port, 3000)
  await Promise.all([claim(over, 'a'), claim(over, 'b', 250), claim(over, 'c', 999_999)])
  const [a, b, c] = requests.map(({ timeoutMs }) => timeoutMs)
  expect(a).toBeGreaterThan(2900)
  expect(a).toBeLessThanOrEqual(3000)
  expect(b).toBeLessThanOrEqual(250)
  expect(c).toBe(120_000)
})

test('a stream that breaks is opened again, and what had no answer is sent again under the same request id', async () => {
  let streams = 0
  const { port, requests, sessions } = await peer((some, stream, { sessions: all }) => {
    if (++streams === 1) {
      stream.write(yes(some[0] as PipeRequest))
      setTimeout(() => all[0]?.destroy(), 20)
    } else stream.write(Buffer.concat(some.map(yes)))
  })
  const over = pipe(port)
  await Promise.all(['a', 'b', 'c'].map(key => claim(over, key)))
  expect(requests.map(keyOf)).toEqual(['a', 'b', 'c', 'b', 'c'])
  expect(requests.map(requestId).slice(3)).toEqual(requests.map(requestId).slice(1, 3))
  expect(sessions).toHaveLength(2)
})

test('what passes is tried again within the deadline: DRAINING, Valkey away, too many in flight', async () => {
  const seen = new Map<string, number>()
  const { port, requests } = await peer((some, stream) => {
    for (const one of some) {
      const times = seen.get(keyOf(one)) ?? 0
      seen.set(keyOf(one), times + 1)
      stream.write(times < 2 ? no(one, UNAVAILABLE, keyOf(one)) : yes(one))
    }
  })
  const over = pipe(port)
  await Promise.all(['DRAINING', 'VALKEY_UNREACHABLE', 'STARTING', 'TOO_MANY_IN_FLIGHT', 'BUSY', 'STORE_CHANGED'].map(key => claim(over, key)))
  expect(new Set(requests.map(requestId)).size).toBe(6)
  expect(requests).toHaveLength(18)
})

test('what does not pass is told at once, and is no doubt about the outcome', async () => {
  const { port, requests } = await peer((some, stream) => some.forEach(one => stream.write(no(one, INVALID_ARGUMENT, 'BAD_FIELD'))))
  expect(await error(claim(pipe(port), 'a'))).toMatchObject({ reason: 'BAD_FIELD', outcomeUnknown: false })
  expect(requests).toHaveLength(1)
})

test('Valkey stays away: the caller gets that reason, before the deadline', async () => {
  const { port } = await peer((some, stream) => some.forEach(one => stream.write(no(one, UNAVAILABLE, 'VALKEY_UNREACHABLE'))))
  expect(await error(claim(pipe(port), 'a', 400))).toMatchObject({ reason: 'VALKEY_UNREACHABLE', retryable: true, outcomeUnknown: false })
})

test('whether a write may have happened is told truthfully', async () => {
  // One that was sent and lost, then refused for certain: the first may have been done.
  let streams = 0
  const lost = await peer((some, stream) => {
    if (++streams === 1) stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR)
    else some.forEach(one => stream.write(no(one, UNAVAILABLE, 'VALKEY_UNREACHABLE')))
  })
  expect(await error(claim(pipe(lost.port), 'a', 500))).toMatchObject({ reason: 'VALKEY_UNREACHABLE', outcomeUnknown: true })
  // The sidecar says so itself.
  const unsure = await peer((some, stream) => some.forEach(one => stream.write(no(one, UNAVAILABLE, 'VALKEY_UNREACHABLE', { outcome_unknown: 'true' }))))
  expect(await error(claim(pipe(unsure.port), 'a', 300))).toMatchObject({ outcomeUnknown: true })
  // A read changes nothing.
  const mute = await peer(() => {})
  expect(await error(pipe(mute.port).call(GET, encodeGet('ns', 'c'), 100))).toMatchObject({ reason: 'DEADLINE_EXCEEDED', outcomeUnknown: false })
  // There never was a connection.
  expect(await error(claim(pipe(1), 'a', 200))).toMatchObject({ reason: 'SIDECAR_UNREACHABLE', outcomeUnknown: false })
})

test('a peer that never answers: each call ends by its own deadline, and the stream is replaced', async () => {
  let mute = true
  const { port, streams } = await peer((some, stream) => mute || some.forEach(one => stream.write(yes(one))))
  const over = pipe(port)
  const started = performance.now()
  const ends = await Promise.all([100, 300, 500].map(async ms => {
    const failure = await error(claim(over, 'a', ms))
    return { reason: failure.reason, unknown: failure.outcomeUnknown, late: performance.now() - started - ms }
  }))
  for (const { reason, unknown, late } of ends) {
    expect({ reason, unknown }).toEqual({ reason: 'DEADLINE_EXCEEDED', unknown: true })
    expect(late).toBeGreaterThanOrEqual(0)
    expect(late).toBeLessThan(2000)
  }
  mute = false
  // The answers owed count as on their way until the stream is given up.
  await expect.poll(async () => (await claim(over, 'b', 500).catch(() => undefined))?.outcome, { timeout: 5000 }).toBe('new')
  await expect.poll(async () => (await claim(over, 'c'), streams.length), { timeout: 5000, interval: 100 }).toBe(2)
})

test('256 calls without an answer do not block those after them for longer than their deadline and a second', async () => {
  let mute = true
  const { port } = await peer((some, stream) => mute || some.forEach(one => stream.write(yes(one))))
  const over = pipe(port)
  const stuck = Promise.allSettled(Array.from({ length: 256 }, (_, n) => claim(over, `k${n}`, 200)))
  await stuck
  mute = false
  expect((await claim(over, 'after')).outcome).toBe('new')
})

test('a sidecar that does not know the call says so at once', async () => {
  const server = http2.createServer()
  server.on('stream', stream => stream.respond({ ':status': 200, 'grpc-status': '12', 'grpc-message': 'unknown' }, { endStream: true }))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  cleanup.push(() => server.close())
  expect(await error(claim(pipe((server.address() as AddressInfo).port), 'a'))).toMatchObject({ reason: 'UNIMPLEMENTED', hint: expect.stringContaining('upgrade') as string })
})

test('garbage for an answer ends the call, or the stream; never the process', async () => {
  let times = 0
  const { port } = await peer((some, stream) => {
    const [one] = some as [PipeRequest]
    times++
    if (times === 1) stream.write(framed(Buffer.from([0x08, one.seq, 0x1a, 0x02, 0x08, 0x63])))
    else if (times === 2) stream.write(framed(Buffer.from([0xff, 0xff])))
    else stream.write(yes(one))
  })
  const over = pipe(port)
  expect(await error(claim(over, 'a'))).toMatchObject({ code: 'INTERNAL', outcomeUnknown: true })
  expect((await claim(over, 'b')).outcome).toBe('new')
})

test('close waits for what is open, and no longer than it may; then there are no more calls', async () => {
  const { port } = await peer((some, stream) => setTimeout(() => some.forEach(one => stream.write(yes(one))), 150))
  const over = pipe(port)
  const open = claim(over, 'a')
  await over.close(5000)
  expect((await open).outcome).toBe('new')
  expect(await error(claim(over, 'b'))).toMatchObject({ reason: 'CLOSED', outcomeUnknown: false })

  const mute = await peer(() => {})
  const other = pipe(mute.port)
  const never = error(claim(other, 'a'))
  await expect.poll(() => mute.requests.length).toBe(1)
  const started = performance.now()
  await other.close(200)
  expect(performance.now() - started).toBeLessThan(2200)
  expect(await never).toMatchObject({ reason: 'CLOSED', outcomeUnknown: true })
})
