// Meta's end of a webhook: what it sends, signed as it signs it.
import { createHmac } from 'node:crypto'

export const APP_SECRET = 'an app secret'
export const VERIFY_TOKEN = 'a token of our choice'
export const PHONE_NUMBER_ID = '106540352242922'

export interface Text {
  id: string
  from: string
  text: string
}

/** A notification of texts, in the shape of https://developers.facebook.com/docs/whatsapp/cloud-api/webhooks/payload-examples */
export function notification(...texts: Text[]): string {
  const value = {
    messaging_product: 'whatsapp',
    metadata: { display_phone_number: '15550783881', phone_number_id: PHONE_NUMBER_ID },
    contacts: texts.map(({ from }) => ({ profile: { name: 'Ana Ñandú' }, wa_id: from })),
    messages: texts.map(({ id, from, text }) => ({ from, id, timestamp: String(Math.floor(Date.now() / 1000)), type: 'text', text: { body: text } })),
  }
  return JSON.stringify({ object: 'whatsapp_business_account', entry: [{ id: '102290129340398', changes: [{ value, field: 'messages' }] }] })
}

/** That a message was delivered: it bears the message's own id. */
export function deliveredStatus(id: string, to: string): string {
  const value = {
    messaging_product: 'whatsapp',
    metadata: { display_phone_number: '15550783881', phone_number_id: PHONE_NUMBER_ID },
    statuses: [{ id, status: 'delivered', timestamp: '1764453600', recipient_id: to }],
  }
  return JSON.stringify({ object: 'whatsapp_business_account', entry: [{ id: '102290129340398', changes: [{ value, field: 'messages' }] }] })
}

export const sign = (body: string, secret = APP_SECRET): string => `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`

/** Delivers it; gives the status of the answer. Rejects when there was none. */
export async function deliver(url: string, body: string, signature: string | null = sign(body)): Promise<number> {
  const headers: Record<string, string> = { 'content-type': 'application/json', ...(signature === null ? {} : { 'x-hub-signature-256': signature }) }
  const response = await fetch(url, { method: 'POST', body, headers, signal: AbortSignal.timeout(20_000) })
  await response.arrayBuffer()
  return response.status
}
