import { expect, test } from 'vitest'
import { AttachRequest, AttachResponse, Attributes, type Commit } from '../../src/gen/pannier/v1/session.js'
import { decodeAnswer } from '../../src/stream/answer-codec.js'
import { encodeCommit, type PutItem } from '../../src/stream/commit-codec.js'
import { Gathered } from '../../src/stream/requests.js'

const put = (type: string, id: string, kind: number, value: string | Uint8Array, ifRevision?: number): PutItem => ({
  type, id, kind, value, ifRevision, size: typeof value === 'string' ? Buffer.byteLength(value) : value.length,
})

function commits(messages: Buffer[]): Commit[] {
  return messages.map(message => {
    const request = AttachRequest.decode(message)
    expect(request.seq).toBe(70_000)
    expect(request.timeoutMs).toBe(10_000)
    if (request.op?.$case !== 'commit') throw new Error('not a commit')
    return request.op.value
  })
}

test('a commit written by hand reads as the generated code reads it', () => {
  const attributes = Attributes.encode({ paired: true, nextPreKeyId: 31n, labels: {} }).finish()
  const [commit, ...more] = commits(
    encodeCommit(70_000, 10_000, 2 ** 40, {
      puts: [put('session', '4915.0', 2, '{"é":"😀"}'), put('sender-key', 'ü::{}*+', 1, Buffer.from([0, 255]), 0), put('x', 'empty', 1, Buffer.alloc(0), 2 ** 33)],
      deletes: [{ type: 'pre-key', id: '7' }],
      attributes,
      expectedRevision: 0,
      incarnation: 3,
    }),
  )
  expect(more).toEqual([])
  expect(commit).toMatchObject({ opSeq: 2n ** 40n, more: false, expectedRevision: 0n, incarnation: 3n, deletes: [{ type: 'pre-key', id: '7' }] })
  expect(commit?.attributes).toMatchObject({ paired: true, nextPreKeyId: 31n })
  expect(commit?.puts.map(({ record, ifRevision }) => [record?.type, record?.id, record?.kind, record?.value.toString(), ifRevision])).toEqual([
    ['session', '4915.0', 2, '{"é":"😀"}', undefined],
    ['sender-key', 'ü::{}*+', 1, Buffer.from([0, 255]).toString(), 0n],
    ['x', 'empty', 1, '', 2n ** 33n],
  ])
})

test('a large commit goes in parts of about 1 MiB, large values in fragments', () => {
  const value = Buffer.alloc(300_000, 7)
  const large = Buffer.from(Array.from({ length: 2_500_000 }, (_, i) => i % 251))
  const puts = [...Array.from({ length: 10 }, (_, i) => put('session', `s${i}`, 1, value)), put('session', 'large', 1, large)]
  const messages = encodeCommit(70_000, 10_000, 5, { puts, deletes: [{ type: 'pre-key', id: '1' }] })
  for (const message of messages) expect(message.length).toBeLessThan(1.1 * 1024 * 1024)
  const parts = commits(messages)
  expect(parts.map(part => part.more)).toEqual([...parts.slice(1).map(() => true), false])
  expect(parts.every(part => part.opSeq === 5n)).toBe(true)
  expect(parts.flatMap(part => part.puts).map(one => one.record?.id)).toEqual(puts.slice(0, 10).map(one => one.id))
  const gathered = new Gathered()
  for (const { fragments } of parts) {
    gathered.add({ records: [], fragments: fragments.map(({ data, offset, total, ...rest }) => ({ ...rest, value: data, offset: Number(offset), total: Number(total), revision: 0 })) })
  }
  expect(gathered.records).toHaveLength(1)
  expect(gathered.records[0]?.value.equals(large)).toBe(true)
})

test('answers read by hand are those the generated code wrote', () => {
  const committed = AttachResponse.encode({
    seq: 300,
    event: { $case: 'committed', value: { baseRevision: 2n ** 40n, revision: 2n ** 40n + 1n, replayed: true, durability: 3, durabilityMet: true } },
  }).finish()
  expect(decodeAnswer(Buffer.from(committed))).toEqual({
    seq: 300, case: 'committed', value: { baseRevision: 2 ** 40, revision: 2 ** 40 + 1, replayed: true, durability: 3, durabilityMet: true },
  })
  const record = { type: 'session', id: 'é', kind: 2, value: Buffer.from('{}'), revision: 9n }
  const records = AttachResponse.encode({
    seq: 2,
    event: {
      $case: 'records',
      value: { records: [record, record], fragments: [{ ...record, offset: 1n, total: 3n, data: Buffer.from('ab'), ifRevision: undefined }], more: true, revision: 10n },
    },
  }).finish()
  const plain = { ...record, revision: 9 }
  expect(decodeAnswer(Buffer.from(records))).toEqual({
    seq: 2, case: 'records', value: { records: [plain, plain], fragments: [{ ...plain, value: Buffer.from('ab'), offset: 1, total: 3 }], more: true, revision: 10 },
  })
  const closed = AttachResponse.encode({ seq: 4, event: { $case: 'closed', value: {} } }).finish()
  expect(decodeAnswer(Buffer.from(closed))).toMatchObject({ seq: 4, case: 'other', value: { $case: 'closed' } })
  expect(() => decodeAnswer(Buffer.from(records).subarray(0, 20))).toThrow()
})
