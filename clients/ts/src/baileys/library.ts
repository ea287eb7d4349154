// The two things needed of Baileys itself: fresh credentials, and the class that app-state-sync keys come back as.

import type { AuthenticationCreds } from 'baileys'

/** What is used of Baileys. `import * as baileys from 'baileys'` has it. */
export interface BaileysLibrary {
  initAuthCreds(): AuthenticationCreds
  proto: { Message: { AppStateSyncKeyData: { fromObject(object: Record<string, unknown>): object } } }
}

/** The one given, or the one installed. */
export async function findBaileys(given: BaileysLibrary | undefined): Promise<BaileysLibrary> {
  if (given) return given
  let cause: unknown
  for (const name of ['baileys', '@whiskeysockets/baileys']) {
    try {
      const found = (await import(name)) as Partial<BaileysLibrary> & { default?: Partial<BaileysLibrary> }
      for (const library of [found, found.default]) {
        if (library?.initAuthCreds && library.proto) return library as BaileysLibrary
      }
    } catch (error) {
      cause = error
    }
  }
  throw new TypeError('pannier: Baileys is not installed here; install it, or give usePannierAuthState({ baileys })', { cause })
}
