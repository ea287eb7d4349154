// What this process has seen stored, by session: no store may be behind it. It belongs to one life of a session (an incarnation):
// a deletion by this process ends it, and what a handle on the old one still learns goes nowhere.

/** The life of a session that was seen last, and its highest revision. */
export interface Seen {
  incarnation: number
  revision: number
}

/** Of sessions opened last. */
const MOST = 10_000

const all = new Map<string, Seen>()

/** Names a session within this process. */
export function placeOf(target: string, namespace: string, session: string): string {
  return JSON.stringify([target, namespace, session])
}

/** The revision that the store must have reached. */
export function seenRevision(place: string): number {
  return all.get(place)?.revision ?? 0
}

/** An opened session; whoever opened it keeps the result up to date. */
export function seen(place: string, incarnation: number, revision: number): Seen {
  const now = { incarnation, revision }
  // Last in the order of a Map.
  all.delete(place)
  all.set(place, now)
  for (const oldest of all.keys()) {
    if (all.size <= MOST) break
    all.delete(oldest)
  }
  return now
}

/** It was deleted: all of it, or one incarnation. */
export function forget(place: string, incarnation?: number): void {
  if (incarnation === undefined || all.get(place)?.incarnation === incarnation) all.delete(place)
}
