import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Metadata, type ServiceError } from '@grpc/grpc-js'
import { expect, test } from 'vitest'
import { candidates, refusal } from '../../src/address.js'
import { connect } from '../../src/connect.js'
import { fromService, SessionHeldError } from '../../src/errors.js'
import { ErrorInfo, RetryInfo, Status } from '../../src/gen/pannier/v1/status.js'
import { milliseconds } from '../../src/options.js'
import { settingsOf } from '../../src/baileys/settings.js'

test('an unknown option throws, with a suggestion', async () => {
  await expect(connect({ adress: 'unix:/x' } as object)).rejects.toThrow('did you mean `address`?')
  await expect(connect({ retries: 3 } as object)).rejects.toThrow(/it knows address, token/)
  expect(() => settingsOf({ onheld: 'wait' } as object)).toThrow('did you mean `onHeld`?')
  expect(() => settingsOf({ onHeld: 'steal' } as object)).toThrow(/'takeOver'/)
})

test('durations are milliseconds or a text', () => {
  expect(milliseconds('t', undefined, 7)).toBe(7)
  expect(milliseconds('t', '20s', 0)).toBe(20_000)
  expect(milliseconds('t', '1.5m', 0)).toBe(90_000)
  for (const wrong of ['20', '-1s', 'soon', -1, Infinity, 2 ** 31]) expect(() => milliseconds('t', wrong as number, 0)).toThrow(TypeError)
})

test('the address: option, environment, then the two default sockets', () => {
  const targets = (address: string | undefined, env: NodeJS.ProcessEnv) => candidates(address, env, 1000).map(one => one.target)
  expect(targets('unix:/a', { PANNIER_ADDRESS: 'unix:/b' })).toEqual(['unix:/a'])
  expect(targets(undefined, { PANNIER_ADDRESS: '127.0.0.1:7000' })).toEqual(['127.0.0.1:7000'])
  expect(targets(undefined, { XDG_RUNTIME_DIR: '/run/user/1000' })).toEqual(['unix:/run/user/1000/pannier/pannier.sock', 'unix:/tmp/pannier-1000/pannier.sock'])
  expect(() => candidates('nonsense', {}, 1000)).toThrow(TypeError)
  expect(() => candidates(undefined, {}, undefined)).toThrow(/WSL2/)
})

test('a default socket in a directory that others could write is not used', async () => {
  const base = mkdtempSync(join(tmpdir(), 'pannier-address-'))
  const uid = process.getuid?.() ?? 0
  const directory = join(base, 'pannier')
  mkdirSync(directory, { mode: 0o700 })
  const server = createServer()
  await new Promise<void>(resolve => server.listen(join(directory, 's.sock'), resolve))
  const at = (path: string) => refusal({ target: `unix:${path}`, checked: true }, uid)
  try {
    expect(at(join(directory, 's.sock'))).toBeUndefined()
    expect(at(join(directory, 'none.sock'))).toMatch(/no such socket/)
    symlinkSync(directory, join(base, 'link'))
    expect(at(join(base, 'link', 's.sock'))).toMatch(/not a real directory/)
    chmodSync(directory, 0o755)
    expect(at(join(directory, 's.sock'))).toMatch(/0700/)
    expect(refusal({ target: `unix:${directory}/s.sock`, checked: true }, uid + 1)).toMatch(uid === 0 ? /0700/ : /belongs to uid/)
  } finally {
    server.close()
    rmSync(base, { recursive: true })
  }
})

test('connect says what it tried and how to start a sidecar', async () => {
  const error: unknown = await connect({ address: 'unix:/nowhere/pannier.sock', readyTimeout: 200 }).catch((e: unknown) => e)
  expect(error).toMatchObject({ reason: 'SIDECAR_UNREACHABLE', retryable: true, code: 'UNAVAILABLE' })
  expect(String(error)).toMatch(/unix:\/nowhere\/pannier\.sock.*pannier serve/)
})

test('errors are read from google.rpc details', () => {
  const any = (name: string, value: Uint8Array) => ({ typeUrl: `type.googleapis.com/google.rpc.${name}`, value: Buffer.from(value) })
  const status = Status.encode({
    code: 9,
    message: 'held',
    details: [
      any('ErrorInfo', ErrorInfo.encode({ reason: 'SESSION_HELD', domain: 'pannier', metadata: { owner: 'other', until: '2026-01-01T00:00:00Z' } }).finish()),
      any('RetryInfo', RetryInfo.encode({ retryDelay: { seconds: 1n, nanos: 5e8 } }).finish()),
    ],
  }).finish()
  const metadata = new Metadata()
  metadata.set('grpc-status-details-bin', Buffer.from(status))
  const failure: ServiceError = Object.assign(new Error('held'), { code: 9, details: 'held', metadata })
  const error = fromService(failure)
  expect(error).toBeInstanceOf(SessionHeldError)
  expect(error).toMatchObject({ code: 'FAILED_PRECONDITION', reason: 'SESSION_HELD', retryAfterMs: 1500, owner: 'other', outcomeUnknown: false })
  expect((error as SessionHeldError).until?.getFullYear()).toBe(2026)
  expect(error.hint).toMatch(/takeOver/)
})
