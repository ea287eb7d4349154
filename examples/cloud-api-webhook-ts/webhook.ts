// What Meta sends, and how to know that it was Meta.
import { createHmac, timingSafeEqual } from 'node:crypto'

/** A text message, as far as the bot needs it: this is what is stored, encrypted, until it is answered. */
export type Incoming = { id: string; from: string; text: string; phoneNumberId: string }

/** Takes as long whatever differs: how long a check took must not tell how much of a guess was right. */
function same(given: string | undefined | null, expected: string): boolean {
  const [a, b] = [given ?? '', expected].map(text => createHmac('sha256', 'compare').update(text).digest())
  return timingSafeEqual(a!, b!)
}

/** `X-Hub-Signature-256` is made of the bytes of the body, as they came: check before parsing. */
export function isSigned(body: Buffer, header: string | undefined, appSecret: string): boolean {
  return same(header, `sha256=${createHmac('sha256', appSecret).update(body).digest('hex')}`)
}

/** What to answer when Meta asks whether this is the right place; undefined: it is not Meta. */
export function challenge(query: URLSearchParams, verifyToken: string): string | undefined {
  if (query.get('hub.mode') !== 'subscribe' || !same(query.get('hub.verify_token'), verifyToken)) return undefined
  return query.get('hub.challenge') ?? ''
}

interface Notification {
  entry?: { changes?: { value?: { metadata?: { phone_number_id: string }; messages?: Message[] } }[] }[]
}
type Message = { id: string; from: string; type: string; text?: { body: string } }

/** The text messages of a notification. Statuses (sent, delivered, read) come the same way; this bot does not look at them. */
export function textsIn(notification: Notification): Incoming[] {
  const values = (notification.entry ?? []).flatMap(entry => entry.changes ?? []).map(change => change.value)
  return values.flatMap(value => (value?.messages ?? []).flatMap(({ id, from, text }) =>
    text && value?.metadata ? { id, from, text: text.body, phoneNumberId: value.metadata.phone_number_id } : []))
}
