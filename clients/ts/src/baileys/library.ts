// The two things needed of Baileys itself: fresh credentials, and the class that app-state-sync keys come back as. It must be
// the application's own copy: a key of another copy's class is no instance of its class.

import { realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { AuthenticationCreds } from 'baileys'

/** What is used of Baileys. `import * as baileys from 'baileys'` has it. */
export interface BaileysLibrary {
  initAuthCreds(): AuthenticationCreds
  proto: { Message: { AppStateSyncKeyData: { fromObject(object: Record<string, unknown>): object } } }
}

const NAMES = ['baileys', '@whiskeysockets/baileys']

/**
 * Files from whose point of view to look for it, in this order. Installed, this package has its peer beside it. Linked from a
 * working copy (`npm link`, `file:`), it may have another copy there, or none: then the program that runs comes first.
 */
export function lookFrom(here = fileURLToPath(import.meta.url), main = process.argv[1], folder = process.cwd()): string[] {
  const program = [...(main === undefined ? [] : [real(main)]), join(folder, 'here')]
  // Some loaders (Vitest, --preserve-symlinks) name this file by the link.
  return real(here).includes(`${sep}node_modules${sep}`) ? [here, ...program] : [...program, here]
}

/** The one given, or the one installed. */
export async function findBaileys(given: BaileysLibrary | undefined, from = lookFrom()): Promise<BaileysLibrary> {
  if (given) return given
  let cause: unknown
  for (const file of from) {
    for (const name of NAMES) {
      try {
        const path = createRequire(file).resolve(name)
        const found = (await import(pathToFileURL(path).href)) as Partial<BaileysLibrary> & { default?: Partial<BaileysLibrary> }
        for (const library of [found, found.default]) {
          if (library?.initAuthCreds && library.proto) return library as BaileysLibrary
        }
      } catch (error) {
        cause ??= error
      }
    }
  }
  throw new TypeError('pannier: Baileys is not installed here; install it, or give usePannierAuthState({ baileys })', { cause })
}

function real(file: string): string {
  try {
    return realpathSync(file)
  } catch {
    return file
  }
}
