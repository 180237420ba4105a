//! The search space: values of settings, and the points that they span.

use serde_json::Value;

/// A setting and the values that it may have.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    /// The setting, such as `max_batch_size`.
    pub path: String,
    /// Its values, in an order in which neighbours are similar.
    pub values: Vec<Value>,
    /// The index of the value in force, if it is among them.
    pub present: Option<usize>,
    /// Priority for choosing among similar candidates, where fewer is better: instances before batches before all else.
    /// Smaller weighs more.
    pub rank: u8,
    /// The model that it belongs to, as a number, where several are searched.
    pub group: Option<usize>,
    /// Whether only steps from the best try its values, because another model holds the requests up.
    pub is_late: bool,
}

/// A point: for each dimension the index of its value.
pub type Place = Vec<usize>;

/// All dimensions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Space {
    /// The dimensions.
    pub dimensions: Vec<Dimension>,
}

impl Space {
    /// Number of points.
    pub fn size(&self) -> usize {
        self.dimensions.iter().fold(1_usize, |count, dimension| count.saturating_mul(dimension.values.len()))
    }

    /// Number of points that are searched before any step.
    pub fn early(&self) -> usize {
        self.dimensions.iter().fold(1_usize, |count, dimension| count.saturating_mul(dimension.tried()))
    }

    /// Leaves the settings of all other groups to the steps, if `group` has settings with several values.
    pub fn search_first(&mut self, group: usize) {
        let is_own = |dimension: &Dimension| dimension.group == Some(group);
        if self.dimensions.iter().any(|dimension| is_own(dimension) && dimension.values.len() > 1) {
            for dimension in &mut self.dimensions {
                dimension.is_late = dimension.group.is_some() && !is_own(dimension);
            }
        }
    }

    /// Every point that is searched before any step, with the last dimension varying fastest.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        let base = self.base();
        (0..self.early()).map(move |mut number| {
            let mut place = base.clone();
            for (index, dimension) in
                place.iter_mut().zip(&self.dimensions).rev().filter(|(_, dimension)| !dimension.is_late)
            {
                *index = number % dimension.values.len();
                number /= dimension.values.len();
            }
            place
        })
    }

    /// The point of the settings in force, if all of them are among the values.
    pub fn present(&self) -> Option<Place> {
        self.dimensions.iter().map(|dimension| dimension.present).collect()
    }

    /// The same, with the first value where the one in force is missing.
    pub fn base(&self) -> Place {
        self.dimensions.iter().map(|dimension| dimension.present.unwrap_or(0)).collect()
    }

    /// The points that differ from `place` by one step of one dimension; those of the group `first` come first.
    pub fn neighbours(&self, place: &Place, first: Option<usize>) -> Vec<Place> {
        let step = |dimension: usize, index: Option<usize>| {
            let index = index.filter(|index| *index < self.dimensions[dimension].values.len())?;
            let mut other = place.clone();
            other[dimension] = index;
            Some(other)
        };
        let mut order: Vec<usize> = (0..self.dimensions.len()).collect();
        order.sort_by_key(|dimension| first.is_some() && self.dimensions[*dimension].group != first);
        order
            .into_iter()
            .flat_map(|dimension| {
                let index = place[dimension];
                [step(dimension, index.checked_sub(1)), step(dimension, Some(index + 1))]
            })
            .flatten()
            .collect()
    }

    /// The points that differ from `base` in one early dimension, after `base` itself. Dimensions take turns, and the ends of
    /// each come before the points between, so that any prefix says something about all.
    pub fn axes(&self, base: &Place) -> Vec<Place> {
        let orders: Vec<Vec<usize>> = self.dimensions.iter().map(|dimension| by_halves(dimension.tried())).collect();
        let longest = orders.iter().map(Vec::len).max().unwrap_or(0);
        let turns = (0..longest)
            .flat_map(|turn| orders.iter().enumerate().map(move |(dimension, order)| (dimension, order.get(turn))));
        let others = turns.filter_map(|(dimension, index)| {
            let mut place = base.clone();
            place[dimension] = *index.filter(|_| !self.dimensions[dimension].is_late)?;
            (place != *base).then_some(place)
        });
        std::iter::once(base.clone()).chain(others).collect()
    }

    /// A key shared by candidates that differ only in their instances.
    pub fn family(&self, place: Option<&Place>) -> Vec<usize> {
        let place = place.map_or(&[][..], Vec::as_slice);
        place
            .iter()
            .zip(&self.dimensions)
            .filter(|(_, dimension)| dimension.rank > 0)
            .map(|(index, _)| *index)
            .collect()
    }

    /// The cost of a point, for comparisons: among similar candidates, the cheapest is preferred.
    pub fn cost(&self, place: &Place) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.dimensions.len()).collect();
        order.sort_by_key(|dimension| self.dimensions[*dimension].rank);
        order.into_iter().map(|dimension| place[dimension]).collect()
    }
}

impl Dimension {
    /// How many of its values are tried before any step.
    pub fn tried(&self) -> usize {
        if self.is_late { 1 } else { self.values.len() }
    }
}

/// The numbers below `count`: the last, the first, then halves of what lies between.
fn by_halves(count: usize) -> Vec<usize> {
    let mut order = Vec::new();
    let mut add = |index: usize| {
        if index < count && !order.contains(&index) {
            order.push(index);
        }
    };
    add(count.saturating_sub(1));
    add(0);
    let mut step = count.next_power_of_two();
    while step > 1 {
        step /= 2;
        (step..count).step_by(2 * step.max(1)).for_each(&mut add);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        let dimension = |path: &str, count: usize, rank| Dimension {
            path: path.to_owned(),
            values: (0..count).map(Value::from).collect(),
            present: (path != "c").then_some(1),
            rank,
            group: Some(usize::from(path == "b")),
            is_late: false,
        };
        Space { dimensions: vec![dimension("a", 2, 1), dimension("b", 3, 0), dimension("c", 2, 2)] }
    }

    #[test]
    fn every_point_is_there_once() {
        let places: Vec<Place> = space().places().collect();
        assert_eq!((places.len(), space().size()), (12, 12));
        assert_eq!((&places[0], &places[1], &places[11]), (&vec![0, 0, 0], &vec![0, 0, 1], &vec![1, 2, 1]));
        assert_eq!(Space::default().places().count(), 1, "without dimensions there is the present one");
    }

    /// `b` is another model's: its values are left to steps.
    #[test]
    fn what_holds_nothing_up_is_searched_last() {
        let mut space = space();
        space.search_first(7);
        assert_eq!(space.early(), 12, "nothing is known of such a group");
        space.search_first(0);
        let places: Vec<Place> = space.places().collect();
        assert_eq!(places, [[0, 1, 0], [0, 1, 1], [1, 1, 0], [1, 1, 1]]);
        assert_eq!((space.early(), space.size()), (4, 12));
        assert_eq!(space.axes(&vec![1, 1, 0]), [[1, 1, 0], [1, 1, 1], [0, 1, 0]]);
        assert_eq!(
            space.neighbours(&vec![1, 1, 0], Some(1))[..2],
            [[1, 0, 0], [1, 2, 0]],
            "steps try all, these first"
        );
    }

    #[test]
    fn neighbours_axes_and_costs() {
        let space = space();
        assert_eq!((space.present(), space.base()), (None, vec![1, 1, 0]));
        assert_eq!(space.neighbours(&vec![1, 1, 0], None), [[0, 1, 0], [1, 0, 0], [1, 2, 0], [1, 1, 1]]);
        assert_eq!(space.axes(&vec![1, 1, 0]), [[1, 1, 0], [1, 2, 0], [1, 1, 1], [0, 1, 0], [1, 0, 0]]);
        assert_eq!(by_halves(6), [5, 0, 4, 2, 1, 3]);
        assert_eq!((by_halves(1), by_halves(0)), (vec![0], vec![]));
        assert_eq!(space.cost(&vec![1, 2, 0]), [2, 1, 0], "by rank");
    }
}
