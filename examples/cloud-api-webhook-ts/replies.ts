// From a message to its reply. A job runs again when its process dies or something fails, so each part can be repeated.
import { FailJob, ReleaseJob, type Job, type JobContext, type Pannier } from 'pannier'
import { next, type Chat } from './dialog.ts'
import type { Graph } from './graph.ts'
import type { Incoming } from './webhook.ts'

export function answer(pannier: Pannier, graph: Graph) {
  return async ({ id, payload: message }: Job<Incoming>, { signal }: JobContext): Promise<{ sent: string }> => {
    const reply = await talk(pannier, message)

    // Meta takes one message per 6 s to the same user, 45 at once on credit. A `sendId` counts once, however often it is tried.
    const leave = await pannier.caps.consume({ sender: message.phoneNumberId, recipient: message.from }, 'pair', { sendId: id })
    // Not now: later, without using up an attempt. The chat's other messages wait behind this one.
    if (leave.outcome === 'denied') throw new ReleaseJob(leave.retryAfterMs)
    if (!leave.allowed) throw new FailJob(`the cap says ${leave.outcome}`)

    signal.throwIfAborted() // cancelled, or another worker has it
    // A process that dies right here, between Meta's answer and its note, sends it again: the Graph API knows no idempotency key.
    return { sent: await graph.send(message.phoneNumberId, message.from, reply) }
  }
}

/** Moves the chat on by one message, and remembers the reply: when it has to be sent again, it is the same. */
async function talk(pannier: Pannier, message: Incoming): Promise<string> {
  const chat = await pannier.conversations.get<Chat>(message.from)
  if (chat.fields.lastMessage === message.id) return chat.fields.lastReply ?? ''
  const { step, fields, reply } = next(chat.step, chat.fields, message.text)
  const { outcome } = await pannier.conversations.advance<Chat>(
    message.from, step, { ...fields, lastMessage: message.id, lastReply: reply },
    { expectedVersion: chat.version, ttl: '30m' },
  )
  if (outcome !== 'advanced') throw new Error(`the chat was changed meanwhile: ${outcome}`) // tried again
  return reply
}
