// Baileys' own store: one file a record.
import { useMultiFileAuthState } from 'baileys'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Setup } from './store.js'

export const files: Setup = async valkey => {
  // Beside Valkey's own files, so both are on one disk.
  const folder = join(valkey.folder, 'files')
  return {
    name: 'multi-file',
    encrypted: false,
    keptIn: 'files',
    processes: () => [],
    async open(session) {
      await rm(folder, { recursive: true, force: true })
      return {
        ...(await useMultiFileAuthState(join(folder, session))),
        flush: async () => undefined,
        close: async () => undefined,
      }
    },
    async stop() {
      await rm(folder, { recursive: true, force: true })
    },
  }
}
