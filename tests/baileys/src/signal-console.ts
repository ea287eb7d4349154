// libsignal writes to the console: whole sessions whenever one closes, and "Session error:Error: Bad MAC" for each session
// that a message did not decrypt with. That line is what people report, so it is counted here; the rest is dropped.

const DROPPED = [
  'Closing session:', 'Opening session:', 'Removing old closed session:', 'Closing open session in favor of',
  'Session already', 'Decrypted message with closed session', 'Failed to decrypt message with any known session',
]

const SESSION_ERROR = 'Session error:'

/** Session errors that libsignal has reported in this process, oldest first, such as "Error: Bad MAC". */
export const sessionErrors: string[] = []

for (const level of ['info', 'warn', 'error'] as const) {
  const print = console[level].bind(console)
  console[level] = (first: unknown, ...rest: unknown[]) => {
    const line = String(first)
    if (line.startsWith(SESSION_ERROR)) sessionErrors.push(line.slice(SESSION_ERROR.length).trim())
    else if (!DROPPED.some(start => line.startsWith(start))) print(first, ...rest)
  }
}

/** How many of them were a message authentication code that did not fit: the keys here are not the keys there. */
export const badMacs = (): number => sessionErrors.filter(error => error.includes('Bad MAC')).length
