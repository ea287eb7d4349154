// RemoteAuth without its faults: one backup at a time of a state that can be restored, nothing that rejects where nobody catches, no
// deletion because another browser took over, and a profile that is complete before the browser starts.

import { access, mkdir, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { placeOf } from '../acknowledged.js'
import type { SaveResult } from '../blobs/index.js'
import type { PannierError } from '../errors.js'
import { sweep, withPart } from '../leftovers.js'
import { checkKnown, milliseconds, type Duration } from '../options.js'
import { backUp } from './backup.js'
import { SessionLease, type OnHeldName } from './lease.js'
import { SESSION_ARCHIVE } from './layout.js'
import { tell, type OnError, type Operation } from './report.js'
import { PannierStore } from './store.js'
import { unpackOver } from './unpack.js'

/** Only `store` is needed. */
export interface HardenedRemoteAuthOptions {
  store: PannierStore
  /** As of RemoteAuth: letters, digits, `_` and `-`. The archive is `RemoteAuth-<clientId>`. */
  clientId?: string
  /** Where the profile lives, in `<dataPath>/RemoteAuth-<clientId>`. Default `./.wwebjs_auth/`. */
  dataPath?: string
  /** Between backups; ≥ 60 s. Default 10 min. Larger values than timers can have (24 days) count as that. */
  backupSyncIntervalMs?: number
  /** From the first `ready` of a new session to its first backup; one more follows after a minute. Default 10 s. */
  firstBackupAfter?: Duration
  /** Back up when the client is destroyed, the browser being closed. Default true. */
  backupOnDestroy?: boolean
  /**
   * Which ends delete the archive, softly: `LOGOUT`, or states such as `UNPAIRED`, `CONFLICT`. Default only `LOGOUT`: the
   * stock class deletes on all of them.
   */
  deleteOn?: readonly string[]
  /**
   * Hold the lease of the session of this name while the client lives. When another owner has it: `wait` (default; up to 45 s),
   * `fail`, `takeOver`. `false`: no lease.
   */
  lease?: OnHeldName | false
  /** Who holds the lease. Default: this process. */
  owner?: string
  /** Told of whatever failed. Default: a process warning. Nothing is thrown into whatsapp-web.js but at its start. */
  onError?: OnError
  /** Told of every backup that is stored, or was found unchanged. */
  onBackup?: (result: SaveResult) => void
  /** The lease is lost: another process has the session. Destroy the client. Backups have stopped. */
  onLeaseLost?: (error: Error) => void
}

/** The part of whatsapp-web.js's Client that is used. */
export interface RemoteAuthClient {
  /** It is there, but not in whatsapp-web.js's types. */
  options?: { puppeteer?: { userDataDir?: string } }
  pupBrowser?: { isConnected?: () => boolean } | null
  emit(event: string, ...args: unknown[]): boolean
  on?(event: string, listener: (...args: never[]) => void): unknown
}

const KNOWN = ['store', 'clientId', 'dataPath', 'backupSyncIntervalMs', 'firstBackupAfter', 'backupOnDestroy', 'deleteOn', 'lease', 'owner', 'onError', 'onBackup', 'onLeaseLost'] as const
const LEAST_INTERVAL_MS = 60_000
const LONGEST_TIMER_MS = 2 ** 31 - 1
const SECOND_BACKUP_MS = 60_000
/** The profile is logged out then: there is nothing to keep. */
const LOGGED_OUT = new Set(['UNPAIRED', 'UNPAIRED_IDLE'])

/** Who has a session in this process. */
const present = new Map<string, HardenedRemoteAuth>()

/** See the top of this file. Use it as `authStrategy`. */
export class HardenedRemoteAuth {
  readonly #options: HardenedRemoteAuthOptions
  readonly #store: PannierStore
  readonly #key: string
  readonly #dataPath: string
  readonly #intervalMs: number
  readonly #firstMs: number
  readonly #userDataDir: string
  #client: RemoteAuthClient | undefined
  #lease: SessionLease | undefined
  #timers: NodeJS.Timeout[] = []
  #started = false
  #lost = false
  #saidSaved = false
  #state = ''
  #running: Promise<SaveResult | undefined> | undefined
  #ending: Promise<void> | undefined

  /** @throws TypeError for a wrong option */
  constructor(options: HardenedRemoteAuthOptions) {
    checkKnown('HardenedRemoteAuth', options, KNOWN)
    const { store, clientId, backupSyncIntervalMs: interval = 600_000 } = options
    if (!(store instanceof PannierStore)) throw new TypeError('HardenedRemoteAuth: store must be a PannierStore')
    if (clientId !== undefined && !/^[-\w]{1,200}$/.test(clientId)) throw new TypeError('HardenedRemoteAuth: clientId must be of letters, digits, _ and -')
    if (typeof interval !== 'number' || !(interval >= LEAST_INTERVAL_MS)) throw new TypeError(`HardenedRemoteAuth: backupSyncIntervalMs must be ${LEAST_INTERVAL_MS} or more`)
    if (options.lease !== undefined && ![false, 'wait', 'fail', 'takeOver'].includes(options.lease)) {
      throw new TypeError("HardenedRemoteAuth: lease must be 'wait', 'fail', 'takeOver' or false")
    }
    this.#options = options
    this.#store = store
    this.#key = clientId === undefined ? 'RemoteAuth' : `RemoteAuth-${clientId}`
    this.#dataPath = resolve(options.dataPath ?? './.wwebjs_auth/')
    // A longer timer would fire every millisecond.
    this.#intervalMs = Math.min(interval, LONGEST_TIMER_MS)
    this.#firstMs = milliseconds('HardenedRemoteAuth: firstBackupAfter', options.firstBackupAfter, 10_000)
    this.#userDataDir = join(this.#dataPath, this.#key)
  }

  get #name(): string {
    const { address, namespace } = this.#store.pannier
    return placeOf(address, namespace, this.#key)
  }

  /** The profile's folder. */
  get userDataDir(): string {
    return this.#userDataDir
  }

  /** The archive's name. */
  get sessionName(): string {
    return this.#key
  }

  setup(client: RemoteAuthClient): void {
    this.#client = client
    // Comes before disconnect(), which is not told why.
    client.on?.('change_state', (state: unknown) => (this.#state = String(state)))
  }

  /**
   * Takes the lease and puts the stored profile in place. Rejects, with the profile as it was, when that is not certain to be right.
   * @throws SessionHeldError, UnavailableError, CorruptBlobError, BadArchiveError
   */
  async beforeBrowserInitialized(): Promise<void> {
    const options = this.#client?.options
    const given = options?.puppeteer?.userDataDir
    if (given !== undefined && given !== this.#userDataDir) throw new Error('HardenedRemoteAuth is not compatible with a userDataDir of your own')
    // After a logout whatsapp-web.js asks again while the browser runs: it has its profile.
    if (this.#browserRuns()) return
    await this.#succeed()
    await mkdir(this.#dataPath, { recursive: true })
    await sweep(this.#userDataDir)
    if (this.#options.lease !== false) await this.#takeLease()
    try {
      await this.#restore()
    } catch (error) {
      await this.#releaseLease()
      throw error
    }
    if (options) options.puppeteer = { ...options.puppeteer, userDataDir: this.#userDataDir }
  }

  async afterBrowserInitialized(): Promise<void> {}

  onAuthenticationNeeded(): Promise<{ failed: boolean; restart: boolean; failureEventPayload: undefined }> {
    return Promise.resolve({ failed: false, restart: false, failureEventPayload: undefined })
  }

  getAuthEventPayload(): Promise<undefined> {
    return Promise.resolve(undefined)
  }

  /** Begins to back up. Calling it again changes nothing. Never rejects. */
  async afterAuthReady(): Promise<void> {
    if (this.#started) return
    this.#started = true
    this.#state = ''
    const every = setInterval(() => void this.backup(), this.#intervalMs)
    this.#timers.push(every.unref())
    try {
      if (await this.#store.sessionExists({ session: this.#key })) return
    } catch (error) {
      // Then it is better to back up soon than late.
      this.#tell(error, 'sessionExists')
    }
    if (!this.#isStarted()) return
    this.#timers.push(setTimeout(() => void this.backup({ provisional: 'true' }), this.#firstMs).unref())
    this.#timers.push(setTimeout(() => void this.backup(), this.#firstMs + SECOND_BACKUP_MS).unref())
  }

  /**
   * Backs up now. While one is going on, that one counts. Never rejects: a failure goes to `onError`, and the outcome is undefined.
   * `labels`: as of `blobs.save`.
   */
  backup(labels: Readonly<Record<string, string>> = {}): Promise<SaveResult | undefined> {
    this.#running ??= this.#backup(labels).finally(() => (this.#running = undefined))
    return this.#running
  }

  /** The connection has ended for another reason than a logout. Deletes nothing, unless `deleteOn` names the state. Never rejects. */
  async disconnect(): Promise<void> {
    if (this.#deletes(this.#state || 'DISCONNECTED')) await this.#forget()
  }

  /** The user has logged out. Never rejects. */
  async logout(): Promise<void> {
    this.#stop()
    await this.#running
    if (this.#deletes('LOGOUT')) await this.#forget()
    this.#state = 'UNPAIRED'
    // Without a browser nobody will call destroy().
    if (!this.#browserRuns()) await this.#end()
  }

  /** The client is destroyed; its browser has ended. Backs up once more, and lets go of the lease. Never rejects. */
  destroy(): Promise<void> {
    this.#ending ??= this.#end().finally(() => (this.#ending = undefined))
    return this.#ending
  }

  async #end(): Promise<void> {
    const wasReady = this.#started
    this.#stop()
    await this.#running
    if (wasReady && !LOGGED_OUT.has(this.#state) && this.#options.backupOnDestroy !== false) await this.backup()
    await this.#releaseLease()
    if (present.get(this.#name) === this) present.delete(this.#name)
  }

  /** Takes the place of a former client of this session in this process: one that is ending ends first, one without a browser is over. */
  async #succeed(): Promise<void> {
    await this.#ending
    const former = present.get(this.#name)
    if (former && former !== this) {
      await former.#ending
      if (former.#browserRuns()) throw new Error(`HardenedRemoteAuth: ${this.#key} already runs in this process: destroy that client first`)
      await former.#end()
    }
    present.set(this.#name, this)
  }

  async #restore(): Promise<void> {
    const { blob, archives } = await this.#store.certainStatus(this.#key)
    if (blob) {
      return withPart(this.#userDataDir, async zip => {
        await this.#store.extract({ session: this.#key, path: zip })
        await unpackOver(zip, this.#userDataDir, SESSION_ARCHIVE)
      })
    }
    // Deleted: what is here belongs to the deleted session. Never stored: what is here was not backed up yet.
    if (archives.length > 0) await this.#wipe()
    await mkdir(this.#userDataDir, { recursive: true })
  }

  async #backup(labels: Readonly<Record<string, string>>): Promise<SaveResult | undefined> {
    try {
      if (this.#lost) return undefined
      await access(this.#userDataDir)
      const result = await backUp({
        store: this.#store, key: this.#key, userDataDir: this.#userDataDir, labels,
        fence: () => this.#lease?.fence,
        over: () => this.#lost,
      })
      this.#said(result)
      return result
    } catch (error) {
      this.#store.noteFailure(this.#key, error)
      this.#tell(error, 'backup')
      return undefined
    }
  }

  #said(result: SaveResult): void {
    try {
      this.#options.onBackup?.(result)
      if (this.#saidSaved) return
      this.#saidSaved = true
      this.#client?.emit('remote_session_saved')
    } catch (error) {
      // It is stored all the same.
      this.#tell(error, 'backup')
    }
  }

  /** Deletes the archive softly, and the profile. */
  async #forget(): Promise<void> {
    this.#stop()
    try {
      await this.#store.remove(this.#key, this.#lease?.fence)
    } catch (error) {
      this.#tell(error, 'delete')
    }
    if (!this.#browserRuns()) await this.#wipe()
  }

  async #wipe(): Promise<void> {
    try {
      await rm(this.#userDataDir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
    } catch (error) {
      this.#tell(error, 'clean')
    }
  }

  async #takeLease(): Promise<void> {
    if (this.#lease && !this.#lost) return
    this.#lost = false
    const lost = (error: PannierError): void => {
      this.#lost = true
      this.#stop()
      this.#tell(error, 'lease')
      try {
        this.#options.onLeaseLost?.(error)
      } catch (failure) {
        this.#tell(failure, 'lease')
      }
    }
    this.#lease = await SessionLease.take(this.#store.pannier, this.#key, this.#options.lease || 'wait', this.#options.owner, lost)
  }

  async #releaseLease(): Promise<void> {
    const lease = this.#lease
    this.#lease = undefined
    await lease?.release()
  }

  #stop(): void {
    for (const timer of this.#timers) clearTimeout(timer)
    this.#timers = []
    this.#started = false
  }

  #isStarted(): boolean {
    return this.#started
  }

  #browserRuns(): boolean {
    return this.#client?.pupBrowser?.isConnected?.() ?? false
  }

  #deletes(why: string): boolean {
    return (this.#options.deleteOn ?? ['LOGOUT']).includes(why)
  }

  #tell(error: unknown, operation: Operation): void {
    tell(this.#options.onError, error, operation, this.#key)
  }
}
