// Baileys as published, told where the server is and what it is certified by.
import { makeWASocket, WA_CERT_DETAILS } from 'baileys'
import { pino } from 'pino'

export * from 'baileys'

WA_CERT_DETAILS.PUBLIC_KEY = Buffer.from(process.env.WA_AUTHORITY, 'hex')

export default config => makeWASocket({ ...config, waWebSocketUrl: process.env.WA_URL, logger: pino({ level: 'silent' }), retryRequestDelayMs: 1 })
