//! The steps of a rotation, each a new keyring made from the old one; `Keyring::edit` puts it into the file.

use super::{
    KeyState, Keyring, KeyringError,
    kdf::Secret32,
    keyring::{Key, MAX_KEYS},
};

impl Keyring {
    /// The same keys with states (or presence) changed, for the commands that edit the file.
    fn changed(&self, change: impl FnOnce(&mut Vec<Key>)) -> Result<Self, KeyringError> {
        let mut keys: Vec<Key> = self
            .keys
            .iter()
            .map(|key| Key { id: key.id, state: key.state, secret: key.secret.clone() })
            .collect();
        change(&mut keys);
        Self::new(self.index_key.clone(), keys)
    }

    fn known(&self, id: u32) -> Result<&Key, KeyringError> {
        self.key(id).ok_or_else(|| KeyringError::new(format!("there is no key {id}")))
    }

    fn with_state(&self, id: u32, state: KeyState) -> Result<Self, KeyringError> {
        self.changed(|keys| {
            for key in keys {
                if key.id == id {
                    key.state = state;
                } else if state == KeyState::Primary && key.state == KeyState::Primary {
                    key.state = KeyState::DecryptOnly;
                }
            }
        })
    }

    /// With one more key, `decrypt_only` until every sidecar knows it; gives its id.
    ///
    /// # Errors
    /// When there is no room for one more.
    ///
    /// # Panics
    /// When the operating system has no randomness.
    pub fn with_new_key(&self) -> Result<(Self, u32), KeyringError> {
        let last = self.keys.iter().map(|key| key.id).max().unwrap_or(0);
        let id = last.checked_add(1).ok_or_else(|| KeyringError::new("the key ids are used up"))?;
        if self.keys.len() >= MAX_KEYS {
            return Err(KeyringError::new(format!("there are {MAX_KEYS} keys: remove disabled ones first")));
        }
        let key = Key { id, state: KeyState::DecryptOnly, secret: Secret32::random() };
        Ok((self.changed(|keys| keys.push(key))?, id))
    }

    /// With `id` as the primary; the former one becomes `decrypt_only`.
    ///
    /// # Errors
    /// When there is no such key, or it is disabled.
    pub fn with_primary(&self, id: u32) -> Result<Self, KeyringError> {
        match self.known(id)?.state {
            KeyState::Disabled => Err(KeyringError::new(format!(
                "key {id} is disabled: set it to decrypt_only everywhere first"
            ))),
            KeyState::Primary | KeyState::DecryptOnly => self.with_state(id, KeyState::Primary),
        }
    }

    /// With `id` disabled. Owners still wrapped under it can no longer be opened: rewrap first.
    ///
    /// # Errors
    /// When there is no such key, or it is the primary.
    pub fn with_disabled(&self, id: u32) -> Result<Self, KeyringError> {
        match self.known(id)?.state {
            KeyState::Primary => {
                Err(KeyringError::new(format!("key {id} is the primary: promote another one first")))
            }
            KeyState::DecryptOnly | KeyState::Disabled => self.with_state(id, KeyState::Disabled),
        }
    }

    /// With a disabled `id` back as `decrypt_only`.
    ///
    /// # Errors
    /// When there is no such key, or it is the primary.
    pub fn with_enabled(&self, id: u32) -> Result<Self, KeyringError> {
        match self.known(id)?.state {
            KeyState::Primary => {
                Err(KeyringError::new(format!("key {id} is the primary: it is not disabled")))
            }
            KeyState::DecryptOnly | KeyState::Disabled => self.with_state(id, KeyState::DecryptOnly),
        }
    }

    /// Without `id`, which must be disabled.
    ///
    /// # Errors
    /// When there is no such key, or it is still in use.
    pub fn without(&self, id: u32) -> Result<Self, KeyringError> {
        match self.known(id)?.state {
            KeyState::Disabled => self.changed(|keys| keys.retain(|key| key.id != id)),
            state => {
                Err(KeyringError::new(format!("key {id} is {state}: only a disabled key can be removed")))
            }
        }
    }
}
