//! Parses the report on standard output.

/// A whole report.
#[derive(Debug)]
pub struct Report {
    /// All of it.
    pub text: String,
    /// Its levels, in the order in which they were measured.
    pub levels: Vec<Level>,
}

/// One level.
#[derive(Debug)]
pub struct Level {
    /// The concurrency or rate; 0 where the level has no header.
    pub value: f64,
    /// Its lines, without the header.
    pub text: String,
}

impl Report {
    /// Takes a report apart.
    pub fn parse(text: &str) -> Self {
        let mut levels = Vec::<Level>::new();
        for line in text.lines() {
            let headers = ["Request concurrency: ", "Request Rate: ", "Paced streams: "];
            if let Some(header) = headers.into_iter().find_map(|header| line.strip_prefix(header)) {
                levels.push(Level { value: first_number(header), text: String::new() });
            } else if line.starts_with("Inferences/Second vs. Client") {
                break;
            } else if let Some(level) = levels.last_mut() {
                level.text.push_str(line);
                level.text.push('\n');
            }
        }
        Self { text: text.to_owned(), levels }
    }

    /// The only level.
    pub fn level(&self) -> &Level {
        let [level] = &self.levels[..] else { panic!("{} levels: {}", self.levels.len(), self.text) };
        level
    }

    /// The values of the levels, in order.
    pub fn values(&self) -> Vec<f64> {
        self.levels.iter().map(|level| level.value).collect()
    }

    /// The lines of the block at the end, above the answer.
    pub fn summary(&self) -> Vec<&str> {
        let mut lines = self.text.lines().skip_while(|line| !line.starts_with("Inferences/Second vs. Client"));
        lines.next().unwrap_or_else(|| panic!("no summary in: {}", self.text));
        lines.take_while(|line| !line.is_empty()).collect()
    }
}

impl Level {
    /// The client's part.
    pub fn client(&self) -> &str {
        self.text.split("  Server: \n").next().unwrap()
    }

    /// The server's part.
    pub fn server(&self) -> &str {
        self.text.split_once("  Server: \n").unwrap_or_else(|| panic!("no server part: {}", self.text)).1
    }

    /// The number after `name: ` in the client's part.
    pub fn client_number(&self, name: &str) -> f64 {
        number_in(self.client(), name)
    }

    /// The number after `name: ` in the server's part.
    pub fn server_number(&self, name: &str) -> f64 {
        number_in(self.server(), name)
    }

    /// The number before `reason` in the list of failures.
    pub fn failures(&self, reason: &str) -> u64 {
        let lines = self.client().lines().filter(|line| line.contains(" x ") && line.contains(reason));
        lines.map(|line| first_number(line.trim_start()) as u64).sum()
    }
}

/// The number after `name: ` in a block of lines.
pub fn number_in(block: &str, name: &str) -> f64 {
    let found = block.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(": "));
    first_number(found.unwrap_or_else(|| panic!("no line '{name}' in: {block}")))
}

/// The number at the start of a text.
fn first_number(text: &str) -> f64 {
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".-+e".contains(c))).unwrap_or(text.len());
    text[..end].parse().unwrap_or_else(|_| panic!("no number at the start of '{text}'"))
}
