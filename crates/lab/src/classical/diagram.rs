//! A record as a message diagram: a line down for each process, an arrow for each message.
//!
//! In: a [`Play`]. Out: SVG that follows the reader's theme and is as narrow as a phone.
//! Or the same with a slider, to go forwards and backwards; in print, and without scripts, all of it shows.
//! Why thick lines: a process that thinks it leads has one, so that two leaders at once are two thick lines side by side.
//! Holds: names and labels are ours, so that nothing in them has to be escaped.

use std::fmt::Write as _;

use super::{Belief, Play, Step, What};

impl Play {
    /// The first so many things that happened after the start, as SVG.
    #[must_use]
    pub fn diagram(&self, title: &str, steps_max: usize) -> String {
        let shown = |step: &&Step| !matches!(step.what, What::Started(_) | What::Sent { .. });
        let steps: Vec<&Step> = self.steps.iter().filter(shown).take(steps_max).collect();
        let height = TOP + ROW * (steps.len() as f64 + 0.5);
        let mut body = String::new();
        for (process, name) in self.names.iter().enumerate() {
            let x = self.lane(process);
            let _ = write!(body, "<text class=\"who\" x=\"{x:.0}\" y=\"14\">{name}</text>");
        }
        for (row, step) in steps.iter().enumerate() {
            let y = TOP + ROW * (row as f64 + 0.5);
            let told = step.to_string();
            let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = write!(body, "<g class=\"row\" data-told=\"{told}\">");
            for (process, belief) in step.beliefs.iter().enumerate() {
                self.draws_life(process, *belief, y, &mut body);
            }
            self.draws(&step.what, y, &mut body);
            body += "</g>";
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"play\" role=\"img\" viewBox=\"0 0 {WIDTH} {height:.0}\">\
             <title>{title}</title><style>{STYLE}</style>{body}</svg>"
        )
    }

    /// The diagram with a slider under it, for a page.
    #[must_use]
    pub fn player(&self, title: &str, steps_max: usize) -> String {
        let svg = self.diagram(title, steps_max);
        let last = svg.matches("class=\"row\"").count();
        format!(
            "<div class=\"player\">{svg}<p class=\"steps\"><button type=\"button\" aria-label=\"Back\">◀</button>\
             <input type=\"range\" min=\"1\" max=\"{last}\" value=\"{last}\" aria-label=\"Step\">\
             <button type=\"button\" aria-label=\"Forward\">▶</button></p>\
             <p class=\"told\" aria-live=\"polite\"></p><script>{SCRIPT}</script></div>"
        )
    }

    /// From this row to the next.
    fn draws_life(&self, process: usize, belief: Belief, y: f64, body: &mut String) {
        let class = match belief {
            Belief { alive: false, .. } => return,
            Belief { leads: Some(_), .. } => "leads",
            Belief { leads: None, .. } => "life",
        };
        let _ = write!(body, "<path class=\"{class}\" d=\"M{:.0} {y:.0}v{ROW}\"/>", self.lane(process));
    }

    fn draws(&self, what: &What, y: f64, body: &mut String) {
        match what {
            What::Sent { .. } | What::Started(_) => {}
            What::Received { from, to, label, .. } => self.draws_arrow((*from, *to), "way", label, y, body),
            What::Lost { from, to, label } => self.draws_arrow((*from, *to), "lost", &format!("{label} ✕"), y, body),
            What::Expired { who, timer } => self.draws_dot(*who, timer, y, body),
            What::Called(who) => self.draws_dot(*who, "calls", y, body),
            What::Crashed(who) => self.draws_dot(*who, "dies", y, body),
            What::Suspects { who, whom } => self.draws_dot(*who, &format!("suspects {whom}"), y, body),
            What::Trusts { who, whom } => self.draws_dot(*who, &format!("trusts {whom}"), y, body),
            What::Cut(_) | What::Healed => {
                let middle = WIDTH / 2.0;
                let _ = write!(body, "<text x=\"{middle:.0}\" y=\"{:.0}\">{what}</text>", y - 5.0);
            }
        }
    }

    fn draws_arrow(&self, (from, to): (usize, usize), class: &str, label: &str, y: f64, body: &mut String) {
        let (start, end) = (self.lane(from), self.lane(to));
        let back = if end > start { -6.0 } else { 6.0 };
        let _ =
            write!(body, "<path class=\"{class}\" d=\"M{start:.0} {y:.0}H{end:.0}m{back} -4l{} 4l{back} 4\"/>", -back);
        let middle = ((start + end) / 2.0).clamp(EDGE, WIDTH - EDGE);
        let _ = write!(body, "<text x=\"{middle:.0}\" y=\"{:.0}\">{label}</text>", y - 5.0);
    }

    fn draws_dot(&self, who: usize, label: &str, y: f64, body: &mut String) {
        let x = self.lane(who);
        let _ = write!(body, "<circle cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"4\"/>");
        let middle = x.clamp(EDGE, WIDTH - EDGE);
        let _ = write!(body, "<text x=\"{middle:.0}\" y=\"{:.0}\">{label}</text>", y - 7.0);
    }

    fn lane(&self, process: usize) -> f64 {
        MARGIN + (WIDTH - 2.0 * MARGIN) * process as f64 / self.n.saturating_sub(1).max(1) as f64
    }
}

const WIDTH: f64 = 340.0;
const MARGIN: f64 = 24.0;
/// How near to the edge a word may have its middle.
const EDGE: f64 = 58.0;
const TOP: f64 = 30.0;
const ROW: f64 = 28.0;

/// The ink is the reader's; behind words stands a little of the paper, so that lines do not cross them.
const STYLE: &str = "\
.play text{font:13px system-ui,sans-serif;text-anchor:middle;fill:currentColor;paint-order:stroke;stroke:var(--paper,Canvas);\
stroke-width:4px;stroke-linejoin:round}.play .who{font-weight:600}.play circle{fill:currentColor}\
.play path{fill:none;stroke:currentColor}.play .life{stroke-width:1;opacity:.5}.play .leads{stroke-width:6;opacity:.8}\
.play .way{stroke-width:1.4}.play .lost{stroke-width:1.2;stroke-dasharray:4 4}\
.play .off{opacity:.1}@media print{.play .off{opacity:1}.steps,.told{display:none}}.steps{display:flex;gap:.5rem;max-width:36rem}\
.steps input{flex:1}.steps button{font-size:1rem;min-width:3rem;min-height:2.4rem}.told{min-height:3em;font-size:.9rem}";

/// Each player finds its own parts; rows after the step fade, and the step is told in words.
const SCRIPT: &str = "\
(p=>{const rows=[...p.querySelectorAll('.row')],s=p.querySelector('input'),t=p.querySelector('.told'),b=p.querySelectorAll('button');\
const show=()=>{const n=+s.value;rows.forEach((r,i)=>r.classList.toggle('off',i>=n));t.textContent=n+' of '+rows.length+': '+rows[n-1].dataset.told};\
s.oninput=show;b[0].onclick=()=>{s.stepDown();show()};b[1].onclick=()=>{s.stepUp();show()};if(rows.length)show()})\
(document.currentScript.parentElement)";

#[cfg(test)]
mod tests {
    use super::super::{Case, Happening, Kind};

    #[test]
    fn two_leaders_at_once_are_two_thick_lines_in_one_row() {
        let mut case = Case::counting(3);
        (case.leader, case.records, case.ends_settled) = (Some(2), true, false);
        case.happenings.push((0, Happening::Suspects { who: 1, whom: 2 }));
        let svg = Kind::Bully.run(&case).play.unwrap().diagram("bully", 1);
        assert_eq!(svg.matches("class=\"leads\"").count(), 2, "{svg}");
        assert!(svg.contains("suspects 2"), "{svg}");
    }

    #[test]
    fn a_player_has_a_row_for_every_step_that_its_slider_reaches() {
        let mut case = Case::leader_dead(4).suspected_by([0]);
        case.records = true;
        let html = Kind::Bully.run(&case).play.unwrap().player("bully", 9);
        assert_eq!(html.matches("class=\"row\"").count(), 9);
        assert!(html.contains("max=\"9\"") && html.contains("data-told=\"0.000 ms 3 dies 0:3 1:3 2:3 3:x\""), "{html}");
    }
}
