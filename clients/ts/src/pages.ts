// Listings come in pages.

/** The pages of a listing, each read when it is asked for, until one names no next. */
export async function* pages<Page extends { cursor: string }>(read: (cursor: string) => Promise<Page>): AsyncGenerator<Page, void, undefined> {
  for (let cursor = ''; ; ) {
    const page = await read(cursor)
    yield page
    if (page.cursor === '') return
    cursor = page.cursor
  }
}
