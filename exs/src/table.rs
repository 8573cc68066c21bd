//! Handles: numbers that are looked up, so that a wrong or old one is an error and nothing worse.

/// Values by handle. A handle is never given out twice while fewer than 2^24 others have taken its
/// place.
pub(crate) struct Table<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<usize>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

const GENERATIONS: u32 = 1 << 24;

impl<T> Table<T> {
    /// Adds a value and answers its handle: never 0, and far from the invalid handles.
    pub(crate) fn insert(&mut self, value: T) -> usize {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() - 1
        });
        let (generation, place) = &mut self.places[index];
        *generation = (*generation + 1) % GENERATIONS;
        *place = Some(value);
        ((*generation as usize) << 32 | (index + 1)) << 4
    }

    fn index(&self, handle: usize) -> Option<usize> {
        let index = ((handle >> 4) & 0xffff_ffff).checked_sub(1)?;
        let (generation, _) = self.places.get(index)?;
        let wanted = (*generation as usize) << 32 | (index + 1);
        (handle == wanted << 4).then_some(index)
    }

    /// The value of a handle.
    pub(crate) fn get(&self, handle: usize) -> Option<&T> {
        self.places[self.index(handle)?].1.as_ref()
    }

    /// Takes a value out.
    pub(crate) fn remove(&mut self, handle: usize) -> Option<T> {
        let index = self.index(handle)?;
        let value = self.places[index].1.take();
        if value.is_some() {
            self.free.push(index);
        }
        value
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_wrong_handles_are_nothing() {
        let mut table = Table::default();
        let (one, two) = (table.insert('a'), table.insert('b'));
        assert_ne!(one, two);
        assert_eq!(table.get(one), Some(&'a'));
        assert_eq!(table.remove(one), Some('a'));
        assert_eq!(table.get(one), None);
        assert_eq!(table.remove(one), None);
        let again = table.insert('c');
        assert_ne!(again, one);
        assert_eq!((table.get(one), table.get(again)), (None, Some(&'c')));
        for wrong in [0, 1, 16, usize::MAX, usize::MAX - 1, again + 1, again << 1] {
            assert_eq!(table.get(wrong), None);
        }
        assert_eq!(table.len(), 2);
    }
}
