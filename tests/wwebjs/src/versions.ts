// The versions of whatsapp-web.js that are tested, as published, and the little of them that the tests touch.
import { createRequire } from 'node:module'
import type { ChildProcess } from 'node:child_process'
import type { EventEmitter } from 'node:events'

export const VERSIONS = ['1.26.0', '1.34.4', '1.34.6', '1.34.7'] as const
export type Version = (typeof VERSIONS)[number]

/** What a Client asks of its strategy. */
export interface AuthStrategy {
  setup(client: unknown): void
  beforeBrowserInitialized(): Promise<void>
  afterAuthReady(): Promise<void>
  disconnect(): Promise<void>
  destroy(): Promise<void>
  logout(): Promise<void>
}

/** The stock strategy, with what it keeps to itself. */
export interface StockRemoteAuth extends AuthStrategy {
  userDataDir: string
  sessionName: string
  tempDir: string
  storeRemoteSession(options?: { emit?: boolean }): Promise<void>
  extractRemoteSession(): Promise<void>
  delay(ms: number): Promise<void>
}

export interface StockOptions {
  clientId?: string
  dataPath?: string
  store: object
  backupSyncIntervalMs: number
}

/** The part of puppeteer's page and browser that is used here. */
export interface Page {
  evaluate<T>(work: string | (() => T | Promise<T>)): Promise<T>
  goto(url: string, options?: object): Promise<unknown>
}

export interface Browser {
  pages(): Promise<Page[]>
  close(): Promise<void>
  isConnected(): boolean
  process(): ChildProcess | null
}

export interface WebClient extends EventEmitter {
  initialize(): Promise<void>
  destroy(): Promise<void>
  logout(): Promise<void>
  pupPage: Page
  pupBrowser: Browser
}

export interface Library {
  Client: new (options: object) => WebClient
  RemoteAuth: new (options: StockOptions) => StockRemoteAuth
}

export interface Puppeteer {
  launch(options: object): Promise<Browser>
}

const require = createRequire(import.meta.url)

export function library(version: Version): Library {
  return require(`wwebjs-${version}`) as Library
}

/** The puppeteer that a version comes with. */
export function puppeteer(version: Version): Puppeteer {
  return createRequire(require.resolve(`wwebjs-${version}`))('puppeteer') as Puppeteer
}
