//! Files with old jobs.

use super::super::content::CopyError;
use super::super::sql::params;
use super::{Check, Remedy, integrity};

impl Check<'_> {
    /// Looks at each archive.
    pub(super) fn archives(&mut self) -> Result<(), CopyError> {
        for archive in self.store.archives()? {
            let path = self.store.archive_path(archive.month);
            let place = format!("archive {}", path.display());
            if !path.exists() {
                let what = "the file is missing";
                let remedy = Remedy::Other("its jobs are not told: put it back where it was");
                self.found(place, what, remedy);
                continue;
            }
            let opened = match self.store.open_archive(archive.month) {
                Ok(opened) => opened,
                Err(e) => {
                    self.found(place, e.to_string(), Remedy::Restore);
                    continue;
                }
            };
            integrity(&opened.connection, &place, self.tell);
            let outside = opened.sql(|c| {
                c.query_row(
                    "SELECT COUNT(*) FROM submissions WHERE base < ?1 OR base + ids > ?2",
                    params![archive.ids.start, archive.ids.end],
                    |r| r.get::<u64>(0),
                )
            });
            match outside {
                Ok(0) => {}
                Ok(n) => {
                    let what = format!("{n} of its submissions have other ids than the store says");
                    let remedy = Remedy::Other(
                        "lists may lack them: put back the file that belongs to this store",
                    );
                    self.found(place, what, remedy);
                }
                Err(e) => self.found(place, e.to_string(), Remedy::Restore),
            }
        }
        let homeless = "SELECT CAST(base AS TEXT), CAST(month AS TEXT) FROM leaving v
             WHERE NOT EXISTS (SELECT 1 FROM archives a WHERE a.month = v.month)";
        let what = "it is on its way into the archive of a month that is not there";
        self.each_is_wrong("submission and month", homeless, 2, what, Remedy::Restore)?;
        Ok(())
    }
}
