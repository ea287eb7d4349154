// Streams against an HTTP/2 server of Node's own: how they end, by plain TCP and by TLS.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import * as http2 from 'node:http2'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { Connection, STREAMS_A_CONNECTION } from '../../src/connection.js'
import type { PannierError } from '../../src/errors.js'
import { Channel, type RawStream } from '../../src/transport/channel.js'
import type { TlsOptions } from '../../src/transport/dial.js'
import { Token } from '../../src/token.js'
import { framed } from '../../src/transport/message-splitter.js'

const cleanup: (() => void)[] = []
afterEach(() => cleanup.splice(0).forEach(clean => clean()))

type Answer = (stream: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders) => void

async function serve(answer: Answer, server: http2.Http2Server = http2.createServer()): Promise<{ target: string; sessions: http2.ServerHttp2Session[] }> {
  const sessions: http2.ServerHttp2Session[] = []
  server.on('session', session => sessions.push(session))
  server.on('stream', answer)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  cleanup.push(() => {
    for (const session of sessions) session.destroy()
    server.close()
  })
  return { target: `127.0.0.1:${(server.address() as AddressInfo).port}`, sessions }
}

function channel(target: string, tls?: TlsOptions): Channel {
  const made = new Channel(target, tls)
  cleanup.push(() => made.close())
  return made
}

interface Talk {
  stream: RawStream
  messages: string[]
  /** How often it ended. */
  ends: number
  end: Promise<PannierError | undefined>
}

function talk(over: Channel, headers: Record<string, string> = {}): Talk {
  const made = { messages: [] as string[], ends: 0 } as Talk
  made.end = new Promise(resolve => {
    made.stream = over.open('/service/Method', headers, {
      onMessage: message => made.messages.push(message.toString()),
      onEnd: error => {
        made.ends++
        resolve(error)
      },
    })
  })
  return made
}

/** Answers each message with itself, and ends with these trailers after `count` of them. */
const echo = (count: number, trailers: Record<string, string>): Answer => stream => {
  let seen = 0
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers(trailers))
  stream.on('error', () => {})
  stream.on('data', (chunk: Buffer) => {
    stream.write(chunk)
    if (++seen === count) stream.end()
  })
}

test('messages go both ways, the token goes along, and an end in order is no error', async () => {
  let token: string | undefined
  const { target } = await serve((stream, headers) => {
    token = headers.authorization
    echo(1, { 'grpc-status': '0' })(stream, headers)
  })
  const one = talk(channel(target), { authorization: 'Bearer t' })
  one.stream.write(Buffer.from('hello'))
  expect(await one.end).toBeUndefined()
  expect(one.messages).toEqual(['hello'])
  expect(token).toBe('Bearer t')
})

test('an error of the sidecar comes with its code and message, after the messages before it, and once', async () => {
  const { target, sessions } = await serve(echo(1, { 'grpc-status': '10', 'grpc-message': 'not%20yours%2C%20%C3%BC' }))
  const one = talk(channel(target))
  one.stream.write(Buffer.from('x'))
  expect(await one.end).toMatchObject({ code: 'ABORTED', message: 'not yours, ü' })
  expect(one.messages).toEqual(['x'])
  sessions[0]?.destroy()
  await new Promise(resolve => setTimeout(resolve, 50))
  expect(one.ends).toBe(1)
})

test('headers alone can be the end', async () => {
  const { target } = await serve(stream => stream.respond({ ':status': 200, 'grpc-status': '16', 'grpc-message': 'who%3F' }, { endStream: true }))
  expect(await talk(channel(target)).end).toMatchObject({ code: 'UNAUTHENTICATED', message: 'who?' })
})

test('what is no sidecar is told from one', async () => {
  const { target } = await serve(stream => stream.respond({ ':status': 502 }, { endStream: true }))
  expect(await talk(channel(target)).end).toMatchObject({ reason: 'SIDECAR_UNREACHABLE' })
})

test('nobody there, and a connection that breaks, are the same: unreachable; the next stream connects anew', async () => {
  expect(await talk(channel('127.0.0.1:1')).end).toMatchObject({ reason: 'SIDECAR_UNREACHABLE' })
  const { target, sessions } = await serve(echo(99, {}))
  const over = channel(target)
  for (const n of [0, 1]) {
    const one = talk(over)
    one.stream.write(Buffer.from('x'))
    await expect.poll(() => one.messages).toEqual(['x'])
    sessions[n]?.destroy()
    expect(await one.end).toMatchObject({ reason: 'SIDECAR_UNREACHABLE' })
  }
})

test('a sidecar that goes lets its streams end, and new ones go elsewhere', async () => {
  const { target, sessions } = await serve(echo(2, { 'grpc-status': '0' }))
  const over = channel(target)
  const first = talk(over)
  first.stream.write(Buffer.from('1'))
  await expect.poll(() => first.messages).toEqual(['1'])
  sessions[0]?.goaway()
  await new Promise(resolve => setTimeout(resolve, 50))
  const second = talk(over)
  second.stream.write(Buffer.from('1'))
  await expect.poll(() => second.messages).toEqual(['1'])
  expect(sessions).toHaveLength(2)
  first.stream.write(Buffer.from('2'))
  expect(await first.end).toBeUndefined()
})

test('a cancelled stream is silent, and a closed channel opens none', async () => {
  const { target } = await serve(echo(99, {}))
  const over = channel(target)
  const one = talk(over)
  one.stream.cancel()
  over.close()
  expect(await talk(over).end).toMatchObject({ reason: 'CLOSED' })
  expect(one.ends).toBe(0)
})

test('closed while it connects: silence, in whatever turn of the event loop', async () => {
  const { target } = await serve(echo(99, {}))
  const uncaught: unknown[] = []
  const listener = (error: unknown): void => void uncaught.push(error)
  process.on('uncaughtException', listener)
  cleanup.push(() => process.off('uncaughtException', listener))
  for (let turns = 0; turns < 40; turns++) {
    const over = channel(target)
    const one = talk(over)
    for (let turn = 0; turn < turns % 10; turn++) await new Promise(setImmediate)
    over.close()
    expect(await one.end).toBeInstanceOf(Error)
    expect(one.ends).toBe(1)
  }
  await new Promise(resolve => setTimeout(resolve, 100))
  expect(uncaught).toEqual([])
})

test('more streams than one connection takes go over another; when they have ended, over the first again', async () => {
  const { target, sessions } = await serve(echo(1, { 'grpc-status': '0' }))
  const over = new Connection({ target, token: Token.of(undefined, undefined), tls: undefined })
  cleanup.push(() => over.close())
  const listener = { onMessage() {}, onEnd() {} }
  const streams = Array.from({ length: STREAMS_A_CONNECTION }, () => over.stream('/service/Method', listener))
  await expect.poll(() => sessions.length).toBe(1)
  const more = Array.from({ length: 3 }, () => over.stream('/service/Method', listener))
  await expect.poll(() => sessions.length).toBe(2)
  for (const stream of [...streams.splice(0, 10), ...more]) stream.cancel()
  await new Promise(resolve => setTimeout(resolve, 100))
  const answered = new Promise(resolve => over.stream('/service/Method', { onMessage() {}, onEnd: resolve }).write(Buffer.from('x')))
  expect(await answered).toBeUndefined()
  expect(sessions).toHaveLength(2)
})

// nodejs/node#38964: the process dies of it, or goes on with a broken heap.
test('closing in the moment of an answer, with many streams open, breaks nothing', async () => {
  for (let round = 0; round < 4; round++) {
    const { target, sessions } = await serve(echo(1, { 'grpc-status': '0' }))
    const over = channel(target)
    const listener = { onMessage() {}, onEnd() {} }
    const many = Array.from({ length: 1000 }, () => over.open('/service/Method', {}, listener))
    while (sessions.length < 1) await new Promise(resolve => setTimeout(resolve, 20))
    for (const stream of many.splice(0, 10)) stream.cancel()
    await new Promise(resolve => setTimeout(resolve, 100))
    await new Promise(resolve => over.open('/service/Method', {}, { onMessage() {}, onEnd: resolve }).write(Buffer.from('x')))
    for (const session of sessions) session.destroy()
    over.close()
    await new Promise(resolve => setTimeout(resolve, 50))
    expect(over.streams).toBe(0)
  }
})

test('garbage ends the stream', async () => {
  const { target } = await serve(stream => {
    stream.on('error', () => {})
    stream.respond({ ':status': 200 })
    stream.write(Buffer.concat([framed(Buffer.from('ok')), Buffer.alloc(9, 255)]))
  })
  const one = talk(channel(target))
  expect(await one.end).toMatchObject({ reason: 'SIDECAR_UNREACHABLE' })
  expect(one.messages).toEqual(['ok'])
})

test('by TLS: the certificate must be one that is trusted, for that name', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'channel-'))
  cleanup.push(() => rmSync(folder, { recursive: true }))
  const [keyFile, certFile] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=sidecar',
    '-addext', 'subjectAltName=DNS:sidecar', '-keyout', keyFile, '-out', certFile], { stdio: 'ignore' })
  const [key, cert] = [readFileSync(keyFile), readFileSync(certFile)]
  const { target } = await serve(echo(1, { 'grpc-status': '0' }), http2.createSecureServer({ key, cert }))
  const trusted = talk(channel(target, { ca: cert, serverName: 'sidecar' }))
  trusted.stream.write(Buffer.from('secret'))
  expect(await trusted.end).toBeUndefined()
  expect(trusted.messages).toEqual(['secret'])
  expect(await talk(channel(target, { ca: cert, serverName: 'another' })).end).toMatchObject({ reason: 'SIDECAR_UNREACHABLE' })
  expect(await talk(channel(target, {})).end).toMatchObject({ reason: 'SIDECAR_UNREACHABLE' })
})

test('closed while it connects, it is silent', async () => {
  const { target } = await serve(echo(1, { 'grpc-status': '0' }))
  for (let i = 0; i < 20; i++) {
    const over = channel(target)
    const { stream } = talk(over)
    for (let turns = 0; turns < i; turns++) await new Promise(setImmediate)
    stream.cancel()
    over.close()
  }
  // An exception that nobody caught would end the test run.
  await new Promise(resolve => setTimeout(resolve, 100))
})

test('a writer is told to wait, and goes on when the other side reads', async () => {
  let read: (() => void) | undefined
  let received = 0
  const { target } = await serve(stream => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' })
    stream.pause()
    stream.on('error', () => {})
    stream.on('data', (chunk: Buffer) => (received += chunk.length))
    read = () => stream.resume()
  })
  const { stream } = talk(channel(target))
  let sent = 0
  const message = Buffer.alloc(100_000)
  while (stream.write(message)) {
    sent++
    await new Promise(resolve => setTimeout(resolve, 1))
    expect(sent).toBeLessThan(1000)
  }
  let isDrained = false
  const drained = stream.drained().then(() => (isDrained = true))
  await expect.poll(() => read).toBeDefined()
  await new Promise(resolve => setTimeout(resolve, 50))
  expect(isDrained).toBe(false)
  read?.()
  await drained
  stream.finish()
  await expect.poll(() => received).toBeGreaterThanOrEqual((sent + 1) * message.length)
})
