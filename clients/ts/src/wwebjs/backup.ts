// One backup of a profile in use: picture, archive, store. Nothing of it is left on the disk, whatever happens.

import { open } from 'node:fs/promises'
import { join } from 'node:path'
import type { SaveResult } from '../blobs/index.js'
import type { PannierError } from '../errors.js'
import { withPart } from '../leftovers.js'
import { backoff, sleep } from '../waiting.js'
import { SESSION_FOLDERS } from './layout.js'
import { pack } from './pack.js'
import { stageProfile } from './stage.js'
import type { PannierStore } from './store.js'

const TRIES = 6
/** A profile in use: files come and go, and on Windows are locked at times. FENCED: the stream was attached again meanwhile. */
const AGAIN = new Set(['ENOENT', 'EBUSY', 'EPERM', 'EACCES', 'BAD_ARCHIVE', 'SOURCE_CHANGED', 'FENCED'])

/** What it needs. */
export interface BackupRequest {
  store: PannierStore
  key: string
  userDataDir: string
  /** Undefined: no lease is held. It may change between tries. */
  fence: () => number | undefined
  /** There is no point in trying again. */
  over: () => boolean
  labels: Readonly<Record<string, string>>
}

/** Backs up, several times if need be. */
export async function backUp(request: BackupRequest): Promise<SaveResult> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await once(request)
    } catch (error) {
      const { code, reason } = error as PannierError
      if (attempt === TRIES || request.over() || !(AGAIN.has(reason) || AGAIN.has(code))) throw error
      await sleep(backoff(attempt, 100, 2000))
    }
  }
}

function once({ store, key, userDataDir, fence, labels }: BackupRequest): Promise<SaveResult> {
  return withPart(userDataDir, async part => {
    const entries = await stageProfile(userDataDir, SESSION_FOLDERS, join(part, 'files'))
    const archive = join(part, 'archive.zip')
    await pack(entries, archive)
    return await store.saveArchive(key, await open(archive, 'r'), { fence: fence(), labels })
  })
}
