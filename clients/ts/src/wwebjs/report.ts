// Where a failure is told that nobody waits for.

import type { PannierError } from '../errors.js'

/** What had failed. */
export type Operation = 'save' | 'extract' | 'delete' | 'sessionExists' | 'backup' | 'lease' | 'clean'

/** Told of failures; must not throw. */
export type OnError = (error: Error, operation: Operation, session: string) => void

/** Calls `onError`; without one, a process warning. Never throws. */
export function tell(onError: OnError | undefined, cause: unknown, operation: Operation, session: string): void {
  const error = cause instanceof Error ? cause : new Error(String(cause))
  try {
    if (onError) return onError(error, operation, session)
    const { hint } = error as Partial<PannierError>
    process.emitWarning(`pannier: ${operation} failed: ${error.message}${hint ? `. ${hint}` : ''}`, { type: 'PannierWarning', code: 'PANNIER_REMOTE_AUTH' })
  } catch {
    // A listener's own fault must not end the bot.
  }
}
