// What the bot says: no network, no store, so it can be read and tested by itself.

/** What is remembered of a chat between two messages. */
export type Chat = { amount: number; lastMessage: string; lastReply: string }

export function next(step: string, chat: Partial<Chat>, text: string): { step: string; fields?: Partial<Chat>; reply: string } {
  const said = text.trim().toLowerCase()
  switch (step) {
    case 'awaiting_amount': {
      const amount = Number(said)
      if (!(amount > 0)) return { step, reply: 'A number, please.' }
      return { step: 'confirm', fields: { amount }, reply: `Pay ${amount}? yes or no` }
    }
    case 'confirm':
      if (said === 'yes') return { step: 'idle', reply: `Paid ${chat.amount}.` }
      if (said === 'no') return { step: 'idle', reply: 'Nothing was paid.' }
      return { step, reply: 'yes or no?' }
    default:
      if (said === 'pay') return { step: 'awaiting_amount', reply: 'How much?' }
      return { step: 'idle', reply: `You said: ${text}` }
  }
}
