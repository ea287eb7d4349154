// The name of a session's archive: the last part of what RemoteAuth passes, which is a bare name in some versions and an absolute
// path in others.

import { basename } from 'node:path'
import { makeError } from '../errors.js'

const LONGEST = 256
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/

/** @throws BadRequestError for what could stand for no archive, or for more than one. */
export function sessionKey(session: unknown): string {
  if (typeof session !== 'string') throw bad('it must be a text')
  const key = basename(session)
  if (key === '' || key === '.' || key === '..') throw bad('it has no last part that is a name')
  if (CONTROL.test(key)) throw bad('it holds control characters')
  if (Buffer.byteLength(key) > LONGEST) throw bad(`it is longer than ${LONGEST} bytes`)
  return key
}

function bad(why: string): Error {
  return makeError({ code: 'INVALID_ARGUMENT', reason: 'BAD_FIELD', field: 'session', message: `session names no archive: ${why}` })
}
