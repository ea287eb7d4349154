import { expect, test } from 'vitest'
import { framed, MessageSplitter } from '../../src/transport/message-splitter.js'

test('messages come out whole and in order, however the bytes are cut', () => {
  const messages = [0, 1, 4, 5, 6, 300, 70_000].map((length, n) => Buffer.alloc(length, n + 1))
  const bytes = Buffer.concat(messages.map(framed))
  for (const size of [1, 2, 3, 5, 7, 64, 16_384, bytes.length]) {
    const splitter = new MessageSplitter()
    const seen: Buffer[] = []
    for (let at = 0; at < bytes.length; at += size) splitter.push(bytes.subarray(at, at + size), message => seen.push(Buffer.from(message)))
    expect(seen.map((message, n) => message.equals(messages[n] ?? Buffer.alloc(1))), `cut into ${size}`).toEqual(messages.map(() => true))
  }
})

test('what is no gRPC message is refused, not waited for', () => {
  for (const head of [[1, 0, 0, 0, 0], [0, 255, 255, 255, 255]]) {
    expect(() => new MessageSplitter().push(Buffer.from(head), () => {})).toThrow(RangeError)
    const inTwo = new MessageSplitter()
    inTwo.push(Buffer.from(head.slice(0, 3)), () => {})
    expect(() => inTwo.push(Buffer.from(head.slice(3)), () => {})).toThrow(RangeError)
  }
})
