// Sends on the wire: requests, and their answers read by hand.

import { badField } from '../errors.js'
import { count, textBytes } from '../limits.js'
import { firstNumber, firsts, outcome, present, readSpan, readTime } from '../pipe/answers.js'
import type { Method } from '../pipe/call.js'
import { Draft } from '../pipe/draft.js'
import type { Reader } from '../stream/wire.js'
import type { CapUsage, ConfirmResult, ConsumeResult, PeekResult, PolicyPeek, RefundResult, Subject } from './results.js'

const POLICIES_MAX = 8
const POLICY_NAME_MAX = 128
export const COUNT_MAX = 1_000_000_000
const UNIT_MAX = 1_000_000
const CONSUME_OUTCOMES = ['allowed', 'denied', 'never', 'replayed', 'mismatch'] as const
const STATES = ['reserved', 'committed'] as const
const CONFIRM_OUTCOMES = ['confirmed', 'lapsed', 'unknown'] as const
const REFUND_OUTCOMES = ['refunded', 'lapsed', 'unknown'] as const
const RESERVE = 2

const draft = new Draft()

function policies(tag: number, names: readonly string[]): void {
  if (names.length < 1 || names.length > POLICIES_MAX) throw badField('policies', `must be 1..${POLICIES_MAX}`)
  names.forEach((name, n) => {
    if (n > 0 && names.indexOf(name) < n) throw badField(`policies[${n}]`, 'is there twice')
    draft.text(tag, name, textBytes(n === 0 ? 'policies[0]' : `policies[${n}]`, name, POLICY_NAME_MAX))
  })
}

/** ConsumeRequest. */
export function encodeConsume(namespace: string, subject: Subject, names: readonly string[], sendId: string, n: number | undefined, reserveMs: number | undefined): Buffer {
  const { recipient, sender } = subject
  draft.begin()
  draft.text(0x0a, namespace)
  draft.text(0x12, sendId, textBytes('send_id', sendId))
  policies(0x1a, names)
  if (recipient !== undefined) draft.text(0x22, recipient, textBytes('recipient', recipient))
  if (sender !== undefined) draft.text(0x2a, sender, textBytes('sender', sender))
  if (n !== undefined) draft.number(0x30, count('n', n, 1, COUNT_MAX))
  if (reserveMs !== undefined) {
    draft.number(0x38, RESERVE)
    if (reserveMs > 0) draft.span(0x42, reserveMs)
  }
  return draft.take()
}

/** ConfirmRequest and RefundRequest. */
export function encodeSend(namespace: string, sendId: string): Buffer {
  draft.request(namespace)
  draft.text(0x1a, sendId, textBytes('send_id', sendId))
  return draft.take()
}

/** PeekRequest. */
export function encodePeek(namespace: string, { recipient, sender }: Subject, names: readonly string[], n: number | undefined, unit: number | undefined): Buffer {
  draft.begin()
  draft.text(0x0a, namespace)
  policies(0x12, names)
  if (recipient !== undefined) draft.text(0x1a, recipient, textBytes('recipient', recipient))
  if (sender !== undefined) draft.text(0x22, sender, textBytes('sender', sender))
  if (n !== undefined) draft.number(0x28, count('n', n, 1, COUNT_MAX))
  if (unit !== undefined) draft.number(0x30, count('unit', unit, 1, UNIT_MAX))
  return draft.take()
}

/** NoteInboundRequest. */
export function encodeInbound(namespace: string, recipient: string, sender: string | undefined): Buffer {
  draft.request(namespace)
  draft.text(0x1a, recipient, textBytes('recipient', recipient))
  if (sender !== undefined) draft.text(0x22, sender, textBytes('sender', sender))
  return draft.take()
}

export const CONSUME: Method<ConsumeResult> = { field: 12, what: 'consuming a cap', writes: true, decode: consumeResult }

export const CONFIRM: Method<ConfirmResult> = {
  field: 13, what: 'confirming a send', writes: true, decode: reader => ({ outcome: outcome(CONFIRM_OUTCOMES, firstNumber(reader)) }),
}

export const REFUND: Method<RefundResult> = {
  field: 14, what: 'refunding a send', writes: true, decode: reader => ({ outcome: outcome(REFUND_OUTCOMES, firstNumber(reader)) }),
}

export const PEEK: Method<PeekResult> = {
  field: 15, what: 'peeking at a cap', writes: false,
  decode(reader) {
    const policies: PolicyPeek[] = []
    let serviceWindowUntil: Date | undefined
    while (reader.at < reader.end) {
      const tag = reader.varint()
      if (tag === 0x0a) policies.push(peek(reader.enter()))
      else if (tag === 0x12) serviceWindowUntil = readTime(reader)
      else reader.skip(tag)
    }
    return { policies, serviceWindowUntil }
  },
}

export const NOTE_INBOUND: Method<Date> = {
  field: 16, what: 'noting an inbound message', writes: true,
  decode: reader => present(firsts(reader, readTime).at(-1), 'open_until'),
}

function consumeResult(reader: Reader): ConsumeResult {
  let number = 0
  const usage: CapUsage[] = []
  let deniedBy = ''
  let retryAfterMs = 0
  let state = 0
  let reservedUntil: Date | undefined
  let failedOpen = false
  while (reader.at < reader.end) {
    const tag = reader.varint()
    switch (tag) {
      case 0x08: number = reader.varint(); break
      case 0x12: usage.push(readUsage(reader.enter())); break
      case 0x1a: deniedBy = reader.string(); break
      case 0x22: retryAfterMs = readSpan(reader); break
      case 0x28: state = reader.varint(); break
      case 0x32: reservedUntil = readTime(reader); break
      case 0x38: failedOpen = reader.varint() !== 0; break
      default: reader.skip(tag)
    }
  }
  const name = outcome(CONSUME_OUTCOMES, number)
  switch (name) {
    case 'allowed':
    case 'replayed':
      // Failed open, it is in no state: nothing was counted.
      return { allowed: true, outcome: name, usage, state: state === 0 ? 'committed' : outcome(STATES, state), reservedUntil, failedOpen }
    case 'denied':
      return { allowed: false, outcome: 'denied', deniedBy, retryAfterMs }
    case 'never':
      return { allowed: false, outcome: 'never', deniedBy }
    case 'mismatch':
      return { allowed: false, outcome: 'mismatch' }
  }
}

function readUsage(reader: Reader): CapUsage {
  let policy = ''
  let limit = 0
  let used = 0
  let remaining = 0
  let resetAt: Date | undefined
  while (reader.at < reader.end) {
    const tag = reader.varint()
    switch (tag) {
      case 0x0a: policy = reader.string(); break
      case 0x10: limit = reader.varint(); break
      case 0x18: used = reader.varint(); break
      case 0x20: remaining = reader.varint(); break
      case 0x2a: resetAt = readTime(reader); break
      default: reader.skip(tag)
    }
  }
  return limit === 0 ? { policy, limit: Infinity, used, remaining: Infinity, resetAt } : { policy, limit, used, remaining, resetAt }
}

function peek(reader: Reader): PolicyPeek {
  let usage: CapUsage | undefined
  let never = false
  let retryAfterMs = 0
  let unitAfterMs: number | undefined
  while (reader.at < reader.end) {
    const tag = reader.varint()
    switch (tag) {
      case 0x0a: usage = readUsage(reader.enter()); break
      case 0x10: never = reader.varint() !== 0; break
      case 0x1a: retryAfterMs = readSpan(reader); break
      case 0x22: unitAfterMs = readSpan(reader); break
      default: reader.skip(tag)
    }
  }
  return { ...present(usage, 'usage'), never, retryAfterMs, unitAfterMs }
}
