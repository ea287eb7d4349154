// What a reader of a page has before a block of it: values that the text is about, functions of their own. What is run, has these
// from context.mjs.
import type { Pannier } from 'pannier'
import type * as forBaileys from 'pannier/baileys'

interface Message {
  id: string
  from: string
  text: string
}

declare global {
  const pannier: Pannier
  const usePannierAuthState: typeof forBaileys.usePannierAuthState

  const message: Message
  const messages: Message[]
  const key: string
  const id: string
  const sender: string
  const recipient: string
  const sendId: string
  const waId: string
  const url: string

  function send(what?: unknown, how?: { signal: AbortSignal }): Promise<void>
  function reply(message: Message, how: { signal: AbortSignal }): Promise<void>
  function work(): Promise<void>
  function retryIn(ms: number): number
  function handleAgain(state: unknown): void
}
