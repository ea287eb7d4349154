import { BufferJSON, proto } from 'baileys'
import { describe, expect, test } from 'vitest'
import { decode, encode } from '../../src/baileys/json.js'
import { ValueKind } from '../../src/gen/pannier/v1/session.js'

/** Baileys' own text of a value. */
const theirs = (value: unknown): string => JSON.stringify(value, BufferJSON.replacer)

describe('values are stored as Baileys stores them', () => {
  const bytes = Buffer.from([0, 1, 127, 128, 255])
  const samples: Record<string, unknown> = {
    'a plain object': { a: 1, b: [true, null, 'x'], c: { d: 'é😀' } },
    'a text': '4915112345678',
    'a list': ['0', '1'],
    'an empty object': {},
    'an empty list': [],
    'a key pair': { public: bytes, private: new Uint8Array(bytes) },
    'bytes in a list': [bytes, { deep: [bytes] }],
    'an empty Uint8Array inside': { token: new Uint8Array(0) },
    'undefined and functions are left out': { a: undefined, f: () => 1, b: 2 },
    'a date': { at: new Date(0) },
    'a proto message': { account: proto.ADVSignedDeviceIdentity.create({ details: bytes, accountSignature: bytes }), key: bytes },
  }
  for (const [name, value] of Object.entries(samples)) {
    test(name, () => {
      const stored = encode(value)
      expect(stored.kind).toBe(ValueKind.VALUE_KIND_JSON)
      expect(stored.value).toBe(theirs(value))
      expect(stored.size).toBe(Buffer.byteLength(stored.value as string))
      expect(decode(stored)).toEqual(JSON.parse(theirs(value), BufferJSON.reviver))
    })
  }

  test('bytes of their own are raw, and come back as a Buffer', () => {
    for (const value of [bytes, new Uint8Array(bytes), Buffer.alloc(0)]) {
      const stored = encode(value)
      expect(stored.kind).toBe(ValueKind.VALUE_KIND_BYTES)
      const back = decode(stored)
      expect(Buffer.isBuffer(back)).toBe(true)
      expect(back).toEqual(Buffer.from(value))
    }
  })

  // WhiskeySockets/mysql-baileys PR#24
  test('bytes inside are read from all three encodings', () => {
    const texts = [
      '{"keyData":{"type":"Buffer","data":"BwcH"}}',
      '{"keyData":{"type":"Buffer","data":[7,7,7]}}',
      '{"keyData":{"0":7,"1":7,"2":7}}',
    ]
    for (const value of texts) {
      const back = decode({ kind: ValueKind.VALUE_KIND_JSON, value, care: true }) as { keyData: Buffer }
      expect(Buffer.isBuffer(back.keyData)).toBe(true)
      expect([...back.keyData]).toEqual([7, 7, 7])
    }
  })

  test('objects that only look like bytes stay objects', () => {
    for (const value of [{ '0': 300 }, { '0': 1, '2': 2 }, { '5': 5 }, { '0': 'x' }, { type: 'Buffer' }, { '0': 1, a: 2 }]) {
      expect(decode(encode(value))).toEqual(value)
    }
  })

  test('each reading gives a fresh object', () => {
    const stored = encode({ a: { b: bytes } })
    const first = decode(stored) as { a: { b: Buffer } }
    first.a.b[0] = 99
    expect(decode(stored)).toEqual({ a: { b: bytes } })
    const raw = encode(bytes)
    ;(decode(raw) as Buffer)[0] = 99
    expect(decode(raw)).toEqual(bytes)
  })

  test('the snapshot does not change with the value', () => {
    const live = Buffer.from([1, 2, 3])
    const stored = encode(live)
    live[0] = 9
    expect(decode(stored)).toEqual(Buffer.from([1, 2, 3]))
  })

  test('what cannot be stored is refused', () => {
    expect(() => encode(Promise.resolve(1))).toThrow(TypeError)
    expect(() => encode({ key: bytes, later: Promise.resolve(1) })).toThrow(TypeError)
    expect(() => encode(() => 1)).toThrow(TypeError)
    expect(() => encode({ n: 1n })).toThrow(TypeError)
    const circle: Record<string, unknown> = {}
    circle.self = circle
    expect(() => encode(circle)).toThrow(TypeError)
  })

  test('a key named __proto__ is a key', () => {
    const value = JSON.parse('{"__proto__":{"type":"Buffer","data":"BwcH"},"a":1}') as object
    const back = decode(encode(value)) as object
    expect(Object.keys(back)).toEqual(['__proto__', 'a'])
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype)
  })
})
