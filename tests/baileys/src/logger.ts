// What Baileys logs to. Silent unless BAILEYS_LOG names a level: its errors are asserted on as events, not read.
import { pino } from 'pino'

export const logger = pino({ level: process.env['BAILEYS_LOG'] ?? 'silent' })
