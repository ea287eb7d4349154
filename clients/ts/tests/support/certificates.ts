// Certificates of tests, made by hand: Node can check X.509, and cannot make it. As much of DER as that takes.

import { generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto'

/** A certificate and its key, PEM. */
export interface Certified {
  cert: string
  key: string
}

/** Signs certificates. */
export interface Authority {
  /** Its own certificate, PEM. */
  ca: string
  /** One for a server of these names. */
  server(...names: string[]): Certified
  /** One for a client. */
  client(options?: { expired?: boolean }): Certified
}

export function authority(name: string): Authority {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const issue = (subject: string, key: KeyObject, extensions: Buffer[], expired = false): string => {
    const years: [string, string] = expired ? ['200101000000Z', '210101000000Z'] : ['200101000000Z', '491231000000Z']
    const body = sequence(
      explicit(0, integer(Buffer.from([2]))),
      integer(Buffer.concat([Buffer.from([1]), randomBytes(8)])),
      ECDSA_SHA256, called(name), sequence(...years.map(at => der(0x17, Buffer.from(at)))), called(subject),
      key.export({ type: 'spki', format: 'der' }),
      explicit(3, sequence(...extensions)),
    )
    return pem(sequence(body, ECDSA_SHA256, der(0x03, Buffer.from([0]), sign('sha256', body, privateKey))))
  }
  const leaf = (subject: string, extensions: Buffer[], expired?: boolean): Certified => {
    const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    return { cert: issue(subject, pair.publicKey, extensions, expired), key: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string }
  }
  return {
    ca: issue(name, publicKey, [extension('551d13', sequence(der(0x01, Buffer.from([0xff]))))]),
    server: (...names) => leaf('server', [extension('551d11', sequence(...names.map(alternative))), extension('551d25', sequence(oid('2b06010505070301')))]),
    client: options => leaf('client', [extension('551d25', sequence(oid('2b06010505070302')))], options?.expired),
  }
}

function der(tag: number, ...parts: Buffer[]): Buffer {
  const value = Buffer.concat(parts)
  const { length } = value
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), value])
}

const sequence = (...parts: Buffer[]): Buffer => der(0x30, ...parts)
const explicit = (number: number, part: Buffer): Buffer => der(0xa0 + number, part)
const integer = (value: Buffer): Buffer => der(0x02, value)
const oid = (hex: string): Buffer => der(0x06, Buffer.from(hex, 'hex'))
const extension = (id: string, value: Buffer): Buffer => sequence(oid(id), der(0x04, value))
const called = (name: string): Buffer => sequence(der(0x31, sequence(oid('550403'), der(0x0c, Buffer.from(name)))))
const ECDSA_SHA256 = sequence(oid('2a8648ce3d040302'))

function alternative(name: string): Buffer {
  const address = /^\d+\.\d+\.\d+\.\d+$/.test(name)
  return address ? der(0x87, Buffer.from(name.split('.').map(Number))) : der(0x82, Buffer.from(name))
}

function pem(bytes: Buffer): string {
  return `-----BEGIN CERTIFICATE-----\n${(bytes.toString('base64').match(/.{1,64}/g) ?? []).join('\n')}\n-----END CERTIFICATE-----\n`
}
