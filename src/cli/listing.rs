//! Listings that come in pages.

use super::{outcome::Outcome, output};

/// One page.
pub struct Page<T> {
    pub items: Vec<T>,
    /// Items that could not be opened.
    pub corrupt: u32,
    /// Where the next one begins; empty: that was all.
    pub cursor: String,
}

/// All items: `page` asks for the page that begins at a cursor, the first at an empty one.
pub async fn all<T>(page: impl AsyncFnMut(String) -> Outcome<Page<T>>) -> Outcome<Vec<T>> {
    at_most(usize::MAX, page).await
}

/// The first items, no page more than they need. Says how many on these pages could not be opened.
pub async fn at_most<T>(
    most: usize,
    mut page: impl AsyncFnMut(String) -> Outcome<Page<T>>,
) -> Outcome<Vec<T>> {
    let (mut items, mut corrupt, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let next = page(cursor).await?;
        items.extend(next.items);
        corrupt += next.corrupt;
        cursor = next.cursor;
        if cursor.is_empty() || items.len() >= most {
            break;
        }
    }
    items.truncate(most);
    warn_of(corrupt);
    Ok(items)
}

/// Says that a listing is not whole.
pub fn warn_of(corrupt: u32) {
    if corrupt > 0 {
        output::note(&format!("{corrupt} more could not be opened: sealed with another key, or damaged"));
    }
}
