-- The table that records which database the lakes belong to has the name of what it holds.
alter table thermocline.home rename to database_identity;
alter index thermocline.home_pkey rename to database_identity_pkey;
alter table thermocline.database_identity rename constraint home_only_one_check to database_identity_only_one_check;
comment on table thermocline.database_identity is
    'The cluster and the database that the lakes belong to, recorded with the first registration. A copy (a restored '
    'dump, a database made from this one as template) names the same files and changes no lake until it is claimed.';
