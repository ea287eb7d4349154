// The two Baileys lines that people run, side by side. Types are those of 7.0.0-rc14; 6.7.24 is used only through what
// both have.
import * as rc14 from 'baileys'
import * as stable from 'baileys-6'

export type Baileys = typeof rc14

export const VERSIONS = ['7.0.0-rc14', '6.7.24'] as const
export type Version = (typeof VERSIONS)[number]

export const baileys = (version: Version): Baileys =>
  version === '7.0.0-rc14' ? rc14 : (stable as unknown as Baileys)
